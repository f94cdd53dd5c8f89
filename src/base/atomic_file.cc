#include "base/atomic_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace lockstep::base {
namespace {

constexpr std::size_t kBufferBytes = 1U << 16;

// The mode that an ordinary new file would have; mkostemp gives 0600.
mode_t ordinary_mode() {
  const mode_t mask = umask(0);
  umask(mask);
  return 0666 & ~mask;
}

}  // namespace

AtomicFile::AtomicFile(std::filesystem::path file) : file_(std::move(file)), temporary_(file_.string() + ".XXXXXX") {
  descriptor_ = mkostemp(temporary_.data(), O_CLOEXEC);
  if (descriptor_ < 0) error_ = errno;
}

AtomicFile::~AtomicFile() {
  if (descriptor_ < 0) return;
  close(descriptor_);
  unlink(temporary_.c_str());
}

void AtomicFile::append(std::string_view bytes) {
  buffer_ += bytes;
  if (buffer_.size() >= kBufferBytes) flush();
}

void AtomicFile::flush() {
  std::string_view rest = buffer_;
  while (!rest.empty() && error_ == 0) {
    const ssize_t written = write(descriptor_, rest.data(), rest.size());
    if (written >= 0) {
      rest.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno != EINTR) {
      error_ = errno;
    }
  }
  buffer_.clear();
}

Status AtomicFile::commit() {
  flush();
  if (error_ == 0 && (fchmod(descriptor_, ordinary_mode()) != 0 || fsync(descriptor_) != 0)) error_ = errno;
  if (error_ == 0 && std::rename(temporary_.c_str(), file_.c_str()) != 0) error_ = errno;
  if (error_ != 0) {
    return {StatusCode::kIo, fmt::format("{} cannot be written: {}", file_.string(), std::strerror(error_))};
  }
  close(descriptor_);
  descriptor_ = -1;
  return Status::ok();
}

Status write_atomically(const std::filesystem::path& file, std::string_view text) {
  AtomicFile out(file);
  out.append(text);
  return out.commit();
}

}  // namespace lockstep::base
