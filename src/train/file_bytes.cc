#include "train/file_bytes.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <system_error>

namespace lockstep::train {
namespace {

struct Close {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

Status write_error(const std::filesystem::path& file, int error) {
  return Status(StatusCode::kIo, fmt::format("{}: cannot write: {}", file.string(), std::strerror(error)));
}

}  // namespace

Result<std::string> read_file(const std::filesystem::path& file) {
  std::error_code ignored;
  if (std::filesystem::is_directory(file, ignored)) {
    return Status(StatusCode::kInvalidArgument, fmt::format("{}: is a folder; name the file itself", file.string()));
  }
  std::unique_ptr<std::FILE, Close> in(std::fopen(file.c_str(), "rb"));
  if (!in) {
    StatusCode code = errno == ENOENT || errno == ENOTDIR ? StatusCode::kUnavailable : StatusCode::kIo;
    return Status(code, fmt::format("{}: cannot open: {}", file.string(), std::strerror(errno)));
  }
  std::string bytes;
  char chunk[1 << 16];
  for (std::size_t n; (n = std::fread(chunk, 1, sizeof(chunk), in.get())) > 0;) bytes.append(chunk, n);
  if (std::ferror(in.get()) != 0) {
    return Status(StatusCode::kIo, fmt::format("{}: reading failed: {}", file.string(), std::strerror(errno)));
  }
  return bytes;
}

Status write_file_atomically(const std::filesystem::path& file, std::string_view bytes) {
  std::filesystem::path temporary = file;
  temporary += fmt::format(".{}.tmp", ::getpid());
  std::FILE* out = std::fopen(temporary.c_str(), "wb");
  if (out == nullptr) return write_error(file, errno);
  bool written = std::fwrite(bytes.data(), 1, bytes.size(), out) == bytes.size() && std::fflush(out) == 0 &&
                 ::fsync(::fileno(out)) == 0;
  int error = errno;
  if (std::fclose(out) != 0 && written) {
    written = false;
    error = errno;
  }
  if (written && ::rename(temporary.c_str(), file.c_str()) == 0) return Status::ok();
  if (written) error = errno;
  ::unlink(temporary.c_str());
  return write_error(file, error);
}

}  // namespace lockstep::train
