// Reading and writing safetensors files. Reads are streamed (pread): a file that shrinks meanwhile is an error, never a
// SIGBUS, and a tensor goes straight into the memory that will hold it. Writes are whole or absent.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "lockstep/status.h"
#include "train/safetensors_header.h"

namespace lockstep::train {

// An open file with a checked header. Reading is const and may run on several threads.
class SafetensorsReader {
 public:
  static Result<SafetensorsReader> open(const std::filesystem::path& path);
  SafetensorsReader(SafetensorsReader&& other) noexcept;
  SafetensorsReader& operator=(SafetensorsReader&&) = delete;
  ~SafetensorsReader();

  const std::string& source() const noexcept { return source_; }  // the path, for messages
  const std::vector<TensorInfo>& tensors() const noexcept { return header_.tensors; }
  const std::map<std::string, std::string>& metadata() const noexcept { return header_.metadata; }
  const TensorInfo* find(std::string_view name) const;  // null when the file has no such tensor

  // Fills `out`, whose size must be info.bytes(), with the raw data of a tensor of this file.
  Status read(const TensorInfo& info, std::span<std::byte> out) const;

 private:
  SafetensorsReader(int descriptor, std::string source) : descriptor_(descriptor), source_(std::move(source)) {}
  int descriptor_ = -1;
  std::string source_;
  SafetensorsHeader header_;
  std::unordered_map<std::string, std::size_t> index_;
};

struct TensorToWrite {
  std::string name;
  TensorDtype dtype = TensorDtype::kF32;
  std::vector<std::int64_t> shape;
  std::span<const std::byte> data;  // contiguous, row major; must outlive the call
};

Status write_safetensors(const std::filesystem::path& path, std::span<const TensorToWrite> tensors,
                         const std::map<std::string, std::string>& metadata);

}  // namespace lockstep::train
