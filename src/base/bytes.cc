#include "base/bytes.h"

#include <bit>

namespace lockstep::base {

void ByteWriter::put(std::uint64_t value, std::size_t bytes) noexcept {
  if (failed_ || out_.size() - position_ < bytes) {
    failed_ = true;
    return;
  }
  for (std::size_t i = 0; i < bytes; ++i) out_[position_ + i] = static_cast<std::byte>(value >> (8 * i));
  position_ += bytes;
}

void ByteWriter::u8(std::uint8_t value) noexcept {
  put(value, 1);
}
void ByteWriter::u16(std::uint16_t value) noexcept {
  put(value, 2);
}
void ByteWriter::u32(std::uint32_t value) noexcept {
  put(value, 4);
}
void ByteWriter::u64(std::uint64_t value) noexcept {
  put(value, 8);
}
void ByteWriter::f32(float value) noexcept {
  put(std::bit_cast<std::uint32_t>(value), 4);
}
void ByteWriter::f64(double value) noexcept {
  put(std::bit_cast<std::uint64_t>(value), 8);
}

void ByteWriter::zeros(std::size_t bytes) noexcept {
  for (std::size_t i = 0; i < bytes; ++i) put(0, 1);
}

std::uint64_t ByteReader::get(std::size_t bytes) noexcept {
  if (failed_ || remaining() < bytes) {
    failed_ = true;
    return 0;
  }
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < bytes; ++i) value |= static_cast<std::uint64_t>(in_[position_ + i]) << (8 * i);
  position_ += bytes;
  return value;
}

std::uint8_t ByteReader::u8() noexcept {
  return static_cast<std::uint8_t>(get(1));
}
std::uint16_t ByteReader::u16() noexcept {
  return static_cast<std::uint16_t>(get(2));
}
std::uint32_t ByteReader::u32() noexcept {
  return static_cast<std::uint32_t>(get(4));
}
std::uint64_t ByteReader::u64() noexcept {
  return get(8);
}
float ByteReader::f32() noexcept {
  return std::bit_cast<float>(static_cast<std::uint32_t>(get(4)));
}
double ByteReader::f64() noexcept {
  return std::bit_cast<double>(get(8));
}

void ByteReader::skip(std::size_t bytes) noexcept {
  if (failed_ || remaining() < bytes) {
    failed_ = true;
    return;
  }
  position_ += bytes;
}

}  // namespace lockstep::base
