#include "train/atomic_file.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

namespace lockstep::train {

AtomicFile::AtomicFile(int descriptor, std::filesystem::path path, std::string temporary)
    : descriptor_(descriptor), path_(std::move(path)), temporary_(std::move(temporary)) {}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      path_(std::move(other.path_)),
      temporary_(std::exchange(other.temporary_, {})) {}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

Result<AtomicFile> AtomicFile::create(const std::filesystem::path& path) {
  static std::atomic<unsigned> count = 0;  // two files of one name may be in the making on two threads
  std::string temporary = fmt::format("{}.partial-{}-{}", path.string(), ::getpid(), count++);
  const int descriptor = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (descriptor < 0) {
    return Status(StatusCode::kIo, fmt::format("{}: cannot create it: {}", path.string(), std::strerror(errno)));
  }
  return AtomicFile(descriptor, path, std::move(temporary));
}

Status AtomicFile::failed(const char* operation) const {
  return {StatusCode::kIo, fmt::format("{}: cannot {} it: {}", path_.string(), operation, std::strerror(errno))};
}

Status AtomicFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return failed("write");
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return Status::ok();
}

Status AtomicFile::write(std::string_view text) {
  return write(std::as_bytes(std::span(text.data(), text.size())));
}

Status AtomicFile::commit() {
  if (::fsync(descriptor_) != 0) return failed("sync");
  if (::close(std::exchange(descriptor_, -1)) != 0) return failed("close");
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) return failed("rename");
  temporary_.clear();
  // The rename itself is durable only once the folder is; a file system that cannot sync folders loses nothing else.
  const std::string folder = path_.has_parent_path() ? path_.parent_path().string() : ".";
  if (const int handle = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); handle >= 0) {
    (void)::fsync(handle);
    ::close(handle);
  }
  return Status::ok();
}

Result<std::string> read_text_file(const std::filesystem::path& path, std::size_t max_bytes) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const auto failure = [&](StatusCode code) {
    Status status(code, fmt::format("{}: cannot read it: {}", path.string(), std::strerror(errno)));
    if (descriptor >= 0) ::close(descriptor);
    return status;
  };
  if (descriptor < 0) return failure(errno == ENOENT ? StatusCode::kUnavailable : StatusCode::kIo);
  std::string text;
  char buffer[1 << 14];
  for (;;) {
    const ssize_t got = ::read(descriptor, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return failure(StatusCode::kIo);
    if (got == 0) break;
    text.append(buffer, static_cast<std::size_t>(got));
    if (text.size() > max_bytes) {
      ::close(descriptor);
      return Status(StatusCode::kCorrupt, fmt::format("{}: larger than {} bytes", path.string(), max_bytes));
    }
  }
  ::close(descriptor);
  return text;
}

}  // namespace lockstep::train
