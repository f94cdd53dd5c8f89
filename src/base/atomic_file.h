// Writes a file so that readers see the old one or the new one, never a part: into a temporary file beside it, then
// renamed over it.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "lockstep/status.h"

namespace lockstep::base {

// Errors are kept: append() after a failure does nothing, commit() reports it. Without a successful commit() the old
// file stays and the temporary one is removed.
class AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path file);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void append(std::string_view bytes);
  Status commit();

 private:
  void flush();
  std::filesystem::path file_;
  std::string temporary_;
  std::string buffer_;
  int descriptor_ = -1;
  int error_ = 0;
};

Status write_atomically(const std::filesystem::path& file, std::string_view text);

}  // namespace lockstep::base
