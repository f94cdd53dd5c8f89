// One writer per run: a lock on RUN/writer.lock, which the kernel releases however the process ends. The file says who
// holds it, so that the refused one can name it.
#pragma once

#include <filesystem>
#include <string>

#include "lockstep/status.h"

namespace lockstep::store {

class WriterLock {
 public:
  // kUnavailable when another writer (of this or another process) holds it; kIo when the folder cannot be written.
  static Result<WriterLock> acquire(const std::filesystem::path& folder);

  // Whether some writer holds the lock now. Only asks: never in the way of a writer.
  static bool held(const std::filesystem::path& folder);

  WriterLock() = default;
  WriterLock(WriterLock&& other) noexcept;
  WriterLock& operator=(WriterLock&& other) noexcept;
  ~WriterLock();

 private:
  void release() noexcept;
  int descriptor_ = -1;
};

}  // namespace lockstep::store
