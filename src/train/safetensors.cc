#include "train/safetensors.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <utility>

#include "train/atomic_file.h"
#include "train/json_text.h"

namespace lockstep::train {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors data is little-endian and is not swapped here");

Status io_error(const std::string& source, const char* operation) {
  const StatusCode code = errno == ENOENT ? StatusCode::kUnavailable : StatusCode::kIo;
  return {code, fmt::format("{}: cannot {} it: {}", source, operation, std::strerror(errno))};
}

Status read_at(int descriptor, std::uint64_t position, std::span<std::byte> out, const std::string& source) {
  while (!out.empty()) {
    const ssize_t got = ::pread(descriptor, out.data(), out.size(), static_cast<off_t>(position));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return io_error(source, "read");
    if (got == 0)
      return {StatusCode::kCorrupt, fmt::format("{}: ends at byte {}: it shrank while read", source, position)};
    out = out.subspan(static_cast<std::size_t>(got));
    position += static_cast<std::uint64_t>(got);
  }
  return Status::ok();
}

}  // namespace

SafetensorsReader::SafetensorsReader(SafetensorsReader&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      source_(std::move(other.source_)),
      header_(std::move(other.header_)),
      index_(std::move(other.index_)) {}

SafetensorsReader::~SafetensorsReader() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Result<SafetensorsReader> SafetensorsReader::open(const std::filesystem::path& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return io_error(path.string(), "open");
  SafetensorsReader reader(descriptor, path.string());
  struct stat info {};
  if (::fstat(descriptor, &info) != 0) return io_error(reader.source_, "stat");
  if (!S_ISREG(info.st_mode)) return Status(StatusCode::kInvalidArgument, reader.source_ + ": not a regular file");
  const auto file_bytes = static_cast<std::uint64_t>(info.st_size);

  std::array<std::byte, 8> first{};
  const std::size_t available = std::min<std::uint64_t>(first.size(), file_bytes);
  if (Status status = read_at(descriptor, 0, std::span(first).first(available), reader.source_); !status) return status;
  auto length = read_header_length(std::span(first).first(available), file_bytes, reader.source_);
  if (!length) return length.error();

  std::string json(*length, '\0');
  if (Status status = read_at(descriptor, first.size(), std::as_writable_bytes(std::span(json)), reader.source_);
      !status) {
    return status;
  }
  auto header = parse_safetensors_header(json, file_bytes, reader.source_);
  if (!header) return header.error();
  reader.header_ = std::move(*header);
  for (std::size_t i = 0; i < reader.header_.tensors.size(); ++i) reader.index_[reader.header_.tensors[i].name] = i;
  return reader;
}

const TensorInfo* SafetensorsReader::find(std::string_view name) const {
  const auto found = index_.find(std::string(name));
  return found == index_.end() ? nullptr : &header_.tensors[found->second];
}

Status SafetensorsReader::read(const TensorInfo& info, std::span<std::byte> out) const {
  if (out.size() != info.bytes()) {
    return {StatusCode::kInvalidArgument, fmt::format("{}: tensor \"{}\" has {} bytes, the destination {}", source_,
                                                      printable(info.name), info.bytes(), out.size())};
  }
  return read_at(descriptor_, header_.data_begin + info.begin, out, source_);
}

Status write_safetensors(const std::filesystem::path& path, std::span<const TensorToWrite> tensors,
                         const std::map<std::string, std::string>& metadata) {
  std::vector<TensorInfo> infos;
  for (const TensorToWrite& tensor : tensors) {
    TensorInfo& info = infos.emplace_back();
    info.name = tensor.name;
    info.dtype = tensor.dtype;
    info.shape = tensor.shape;
    std::uint64_t bytes = dtype_bytes(tensor.dtype);
    for (std::int64_t extent : tensor.shape) bytes *= static_cast<std::uint64_t>(extent);
    if (bytes != tensor.data.size()) {
      return {StatusCode::kInvalidArgument,
              fmt::format("{}: tensor \"{}\" of shape {} comes with {} bytes", path.string(), printable(tensor.name),
                          shape_text(tensor.shape), tensor.data.size())};
    }
  }
  auto header = format_safetensors_header(infos, metadata);
  if (!header) return {header.error().code(), fmt::format("{}: {}", path.string(), header.error().message())};
  auto file = AtomicFile::create(path);
  if (!file) return file.error();
  if (Status status = file->write(*header); !status) return status;
  for (const TensorToWrite& tensor : tensors) {
    if (Status status = file->write(tensor.data); !status) return status;
  }
  return file->commit();
}

}  // namespace lockstep::train
