// A file that appears whole or not at all: written beside its final name, synced, then renamed over it.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "lockstep/status.h"

namespace lockstep::train {

// Writes, then commit(). Destroyed without commit() it removes what it wrote, and a file of that name stays as it was.
class AtomicFile {
 public:
  static Result<AtomicFile> create(const std::filesystem::path& path);
  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&&) = delete;
  ~AtomicFile();

  Status write(std::span<const std::byte> bytes);
  Status write(std::string_view text);
  Status commit();

 private:
  AtomicFile(int descriptor, std::filesystem::path path, std::string temporary);
  Status failed(const char* operation) const;
  int descriptor_ = -1;
  std::filesystem::path path_;
  std::string temporary_;
};

// The whole of a small text file; refuses more than `max_bytes`.
Result<std::string> read_text_file(const std::filesystem::path& path, std::size_t max_bytes);

}  // namespace lockstep::train
