#include "report/atomic_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace lockstep::report {
namespace {

bool write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(descriptor, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

}  // namespace

Status write_atomically(const std::filesystem::path& file, std::string_view text) {
  const auto failed = [&](int error) {
    return Status(StatusCode::kIo, fmt::format("{} cannot be written: {}", file.string(), std::strerror(error)));
  };
  std::string temporary = file.string() + ".XXXXXX";
  const int descriptor = mkostemp(temporary.data(), O_CLOEXEC);
  if (descriptor < 0) return failed(errno);
  const mode_t mask = umask(0);
  umask(mask);
  const bool written = write_all(descriptor, text) && fchmod(descriptor, 0666 & ~mask) == 0 && fsync(descriptor) == 0;
  int error = written ? 0 : errno;
  if (close(descriptor) != 0 && error == 0) error = errno;
  if (error == 0 && std::rename(temporary.c_str(), file.c_str()) != 0) error = errno;
  if (error == 0) return Status::ok();
  unlink(temporary.c_str());
  return failed(error);
}

}  // namespace lockstep::report
