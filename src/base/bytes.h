// Little-endian reading and writing of fixed-size fields, independent of the host's byte order and alignment.
// A reader never runs past its end: it becomes failed, and every later read gives zero.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace lockstep::base {

class ByteWriter {
 public:
  explicit ByteWriter(std::span<std::byte> out) : out_(out) {}
  void u8(std::uint8_t value) noexcept;
  void u16(std::uint16_t value) noexcept;
  void u32(std::uint32_t value) noexcept;
  void u64(std::uint64_t value) noexcept;
  void f32(float value) noexcept;
  void f64(double value) noexcept;
  void zeros(std::size_t bytes) noexcept;

  std::size_t position() const noexcept { return position_; }
  bool failed() const noexcept { return failed_; }  // something did not fit and was left out

 private:
  void put(std::uint64_t value, std::size_t bytes) noexcept;
  std::span<std::byte> out_;
  std::size_t position_ = 0;
  bool failed_ = false;
};

class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> in) : in_(in) {}
  std::uint8_t u8() noexcept;
  std::uint16_t u16() noexcept;
  std::uint32_t u32() noexcept;
  std::uint64_t u64() noexcept;
  float f32() noexcept;
  double f64() noexcept;
  void skip(std::size_t bytes) noexcept;

  std::size_t position() const noexcept { return position_; }
  std::size_t remaining() const noexcept { return in_.size() - position_; }
  bool failed() const noexcept { return failed_; }

 private:
  std::uint64_t get(std::size_t bytes) noexcept;
  std::span<const std::byte> in_;
  std::size_t position_ = 0;
  bool failed_ = false;
};

}  // namespace lockstep::base
