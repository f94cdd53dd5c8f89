#include "store/writer_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <string_view>
#include <utility>

namespace lockstep::store {
namespace {

constexpr const char* kLockFile = "writer.lock";

struct flock whole_file() {
  struct flock region {};
  region.l_type = F_WRLCK;
  region.l_whence = SEEK_SET;
  return region;
}

std::string holder(int descriptor) {
  std::array<char, 256> text{};
  const ssize_t length = pread(descriptor, text.data(), text.size(), 0);
  return length > 0 ? std::string(text.data(), static_cast<std::size_t>(length)) : "a process that has not said who";
}

std::string introduce_self() {
  std::array<char, 128> host{};
  (void)gethostname(host.data(), host.size() - 1);
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  std::array<char, 32> since{};
  (void)std::strftime(since.data(), since.size(), "%Y-%m-%dT%H:%M:%SZ", &utc);
  return fmt::format("process {} on {} since {}", getpid(), host.data(), since.data());
}

}  // namespace

// Open-file-description locks, not POSIX ones: those would let a second writer of the same process through.
Result<WriterLock> WriterLock::acquire(const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / kLockFile;
  WriterLock lock;
  lock.descriptor_ = open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (lock.descriptor_ < 0) {
    return Status(StatusCode::kIo, fmt::format("run folder {} cannot be written: {}: choose another folder or mend its "
                                               "permissions",
                                               folder.string(), std::strerror(errno)));
  }
  struct flock region = whole_file();
  if (fcntl(lock.descriptor_, F_OFD_SETLK, &region) != 0) {
    if (errno != EAGAIN && errno != EACCES) {
      return Status(StatusCode::kIo, fmt::format("{} cannot be locked: {}: keep runs on a local disk", file.string(),
                                                 std::strerror(errno)));
    }
    return Status(StatusCode::kUnavailable,
                  fmt::format("run folder {} is being written by {}: wait for it, or give this run another name",
                              folder.string(), holder(lock.descriptor_)));
  }
  const std::string self = introduce_self();
  // A full disk may refuse these bytes; the lock holds without them.
  if (ftruncate(lock.descriptor_, 0) == 0) (void)!pwrite(lock.descriptor_, self.data(), self.size(), 0);
  return lock;
}

bool WriterLock::held(const std::filesystem::path& folder) {
  const int descriptor = open((folder / kLockFile).c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return false;
  struct flock region = whole_file();
  const bool asked = fcntl(descriptor, F_OFD_GETLK, &region) == 0;
  close(descriptor);
  return asked && region.l_type != F_UNLCK;
}

WriterLock::WriterLock(WriterLock&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}

WriterLock& WriterLock::operator=(WriterLock&& other) noexcept {
  if (this != &other) {
    release();
    descriptor_ = std::exchange(other.descriptor_, -1);
  }
  return *this;
}

WriterLock::~WriterLock() {
  release();
}

void WriterLock::release() noexcept {
  if (descriptor_ >= 0) close(descriptor_);
  descriptor_ = -1;
}

}  // namespace lockstep::store
