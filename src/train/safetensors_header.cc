#include "train/safetensors_header.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <set>

#include "base/bytes.h"
#include "train/json_text.h"

namespace lockstep::train {
namespace {

constexpr std::size_t kLengthBytes = 8;
constexpr std::size_t kMaxDimensions = 8;
constexpr const char* kMetadataKey = "__metadata__";

struct DtypeRow {
  TensorDtype dtype;
  const char* name;
  std::size_t bytes;
};
constexpr std::array<DtypeRow, 13> kDtypes = {{{TensorDtype::kBool, "BOOL", 1},
                                               {TensorDtype::kU8, "U8", 1},
                                               {TensorDtype::kI8, "I8", 1},
                                               {TensorDtype::kI16, "I16", 2},
                                               {TensorDtype::kU16, "U16", 2},
                                               {TensorDtype::kF16, "F16", 2},
                                               {TensorDtype::kBf16, "BF16", 2},
                                               {TensorDtype::kI32, "I32", 4},
                                               {TensorDtype::kU32, "U32", 4},
                                               {TensorDtype::kF32, "F32", 4},
                                               {TensorDtype::kF64, "F64", 8},
                                               {TensorDtype::kI64, "I64", 8},
                                               {TensorDtype::kU64, "U64", 8}}};

const DtypeRow& row(TensorDtype dtype) noexcept {
  return kDtypes[static_cast<std::size_t>(dtype)];
}

Status corrupt(const std::string& source, const std::string& reason) {
  return {StatusCode::kCorrupt, fmt::format("{}: {}", source, reason)};
}

Status corrupt_tensor(const std::string& source, const std::string& name, const std::string& reason) {
  return corrupt(source, fmt::format("tensor \"{}\": {}", printable(name), reason));
}

// Bytes of a tensor, or nothing when they do not fit 63 bits.
std::optional<std::uint64_t> bytes_needed(TensorDtype dtype, std::span<const std::int64_t> shape) {
  std::int64_t total = static_cast<std::int64_t>(dtype_bytes(dtype));
  for (std::int64_t extent : shape) {
    if (extent < 0 || __builtin_mul_overflow(total, extent, &total)) return std::nullopt;
  }
  return static_cast<std::uint64_t>(total);
}

// A count from JSON: nlohmann reads negative ones as signed and those past 64 bits as floating point.
std::optional<std::uint64_t> count(const nlohmann::json& value) {
  if (!value.is_number_unsigned()) return std::nullopt;
  const auto number = value.get<std::uint64_t>();
  if (number > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) return std::nullopt;
  return number;
}

Status parse_shape(const nlohmann::json& entry, const std::string& source, TensorInfo& info) {
  const auto found = entry.find("shape");
  if (found == entry.end() || !found->is_array() || found->size() > kMaxDimensions) {
    return corrupt_tensor(source, info.name,
                          fmt::format("\"shape\" is not a list of at most {} sizes", kMaxDimensions));
  }
  for (const auto& extent : *found) {
    const auto value = count(extent);
    if (!value) return corrupt_tensor(source, info.name, fmt::format("size {} in its shape", printable(extent.dump())));
    info.shape.push_back(static_cast<std::int64_t>(*value));
  }
  return Status::ok();
}

Status parse_offsets(const nlohmann::json& entry, std::uint64_t data_bytes, const std::string& source,
                     TensorInfo& info) {
  const auto found = entry.find("data_offsets");
  const bool pair = found != entry.end() && found->is_array() && found->size() == 2;
  const auto begin = pair ? count((*found)[0]) : std::nullopt;
  const auto end = pair ? count((*found)[1]) : std::nullopt;
  if (!begin || !end || *begin > *end) {
    return corrupt_tensor(source, info.name, "\"data_offsets\" is not a pair [begin, end]");
  }
  if (*end > data_bytes) {
    return corrupt_tensor(source, info.name,
                          fmt::format("its data ends at byte {}, past the end of the file's data ({} bytes): "
                                      "the file is truncated or its header lies",
                                      *end, data_bytes));
  }
  info.begin = *begin;
  info.end = *end;
  const auto needed = bytes_needed(info.dtype, info.shape);
  if (!needed || *needed != info.bytes()) {
    return corrupt_tensor(
        source, info.name,
        fmt::format("shape {} of {} needs {} bytes, its data has {}", shape_text(info.shape), dtype_name(info.dtype),
                    needed ? fmt::to_string(*needed) : "too many", info.bytes()));
  }
  return Status::ok();
}

Result<TensorInfo> parse_tensor(const std::string& name, const nlohmann::json& entry, std::uint64_t data_bytes,
                                const std::string& source) {
  TensorInfo info;
  info.name = name;
  if (!entry.is_object()) return corrupt_tensor(source, name, "its header entry is not an object");
  const auto dtype = entry.find("dtype");
  if (dtype == entry.end() || !dtype->is_string()) return corrupt_tensor(source, name, "it has no \"dtype\"");
  const auto& text = dtype->get_ref<const std::string&>();
  const auto known = std::find_if(kDtypes.begin(), kDtypes.end(), [&](const DtypeRow& r) { return text == r.name; });
  if (known == kDtypes.end()) return corrupt_tensor(source, name, fmt::format("unknown dtype \"{}\"", printable(text)));
  info.dtype = known->dtype;
  if (Status status = parse_shape(entry, source, info); !status) return status;
  if (Status status = parse_offsets(entry, data_bytes, source, info); !status) return status;
  return info;
}

Status parse_metadata(const nlohmann::json& entry, const std::string& source, SafetensorsHeader& header) {
  if (!entry.is_object()) return corrupt(source, "\"__metadata__\" is not an object");
  for (const auto& [key, value] : entry.items()) {
    if (!value.is_string()) return corrupt(source, fmt::format("metadata \"{}\" is not text", printable(key)));
    header.metadata.emplace(key, value.get<std::string>());
  }
  return Status::ok();
}

// Every byte of the data belongs to exactly one tensor: the format demands it, and a gap or an overlap means that some
// writer and this header disagree about where a tensor lies.
Status check_tiling(SafetensorsHeader& header, std::uint64_t data_bytes, const std::string& source) {
  std::sort(header.tensors.begin(), header.tensors.end(), [](const TensorInfo& a, const TensorInfo& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
  });
  std::uint64_t position = 0;
  for (const TensorInfo& info : header.tensors) {
    if (info.begin < position) return corrupt_tensor(source, info.name, "its data overlaps another tensor's");
    if (info.begin > position) {
      return corrupt_tensor(source, info.name,
                            fmt::format("{} bytes before its data belong to no tensor", info.begin - position));
    }
    position = info.end;
  }
  if (position != data_bytes) {
    return corrupt(source, fmt::format("{} bytes at the end belong to no tensor", data_bytes - position));
  }
  return Status::ok();
}

}  // namespace

std::size_t dtype_bytes(TensorDtype dtype) noexcept {
  return row(dtype).bytes;
}
const char* dtype_name(TensorDtype dtype) noexcept {
  return row(dtype).name;
}
std::string shape_text(std::span<const std::int64_t> shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

Result<std::uint64_t> read_header_length(std::span<const std::byte> first_bytes, std::uint64_t file_bytes,
                                         const std::string& source) {
  if (first_bytes.size() < kLengthBytes || file_bytes < kLengthBytes) {
    return corrupt(source, fmt::format("{} bytes are too few for a safetensors file",
                                       std::min<std::uint64_t>(file_bytes, first_bytes.size())));
  }
  const std::uint64_t length = base::ByteReader(first_bytes).u64();
  if (length > kMaxHeaderBytes) {
    return corrupt(source, fmt::format("header of {} bytes, more than the {} that the format allows: not a safetensors "
                                       "file?",
                                       length, kMaxHeaderBytes));
  }
  if (length > file_bytes - kLengthBytes) {
    return corrupt(source,
                   fmt::format("header of {} bytes in a file of {} bytes: the file is truncated", length, file_bytes));
  }
  return length;
}

Result<SafetensorsHeader> parse_safetensors_header(std::string_view json, std::uint64_t file_bytes,
                                                   const std::string& source) {
  if (json.size() > file_bytes || file_bytes - json.size() < kLengthBytes)
    return corrupt(source, "the file is truncated");
  if (json.empty() || json.front() != '{') return corrupt(source, "its header does not begin with '{'");
  auto document = parse_json_object(json, source + " (header)");
  if (!document) return document.error();
  SafetensorsHeader header;
  header.data_begin = kLengthBytes + json.size();
  const std::uint64_t data_bytes = file_bytes - header.data_begin;
  for (const auto& [name, entry] : document->items()) {
    if (name == kMetadataKey) {
      if (Status status = parse_metadata(entry, source, header); !status) return status;
      continue;
    }
    auto info = parse_tensor(name, entry, data_bytes, source);
    if (!info) return info.error();
    header.tensors.push_back(std::move(*info));
  }
  if (Status status = check_tiling(header, data_bytes, source); !status) return status;
  return header;
}

Result<std::string> format_safetensors_header(std::span<const TensorInfo> tensors,
                                              const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json document = nlohmann::ordered_json::object();
  if (!metadata.empty()) document[kMetadataKey] = metadata;
  std::set<std::string> names = {kMetadataKey};
  std::uint64_t position = 0;
  for (const TensorInfo& info : tensors) {
    const auto bytes = bytes_needed(info.dtype, info.shape);
    if (!bytes || !names.insert(info.name).second) {
      return Status(StatusCode::kInvalidArgument,
                    fmt::format("tensor \"{}\" of shape {} cannot be written: {}", printable(info.name),
                                shape_text(info.shape), bytes ? "its name is taken" : "its size overflows"));
    }
    document[info.name] = {
        {"dtype", dtype_name(info.dtype)}, {"shape", info.shape}, {"data_offsets", {position, position + *bytes}}};
    position += *bytes;
  }
  std::string json;
  try {
    json = document.dump();
  } catch (const std::exception& error) {  // a name that is not UTF-8
    return Status(StatusCode::kInvalidArgument, fmt::format("safetensors header: {}", printable(error.what())));
  }
  json.resize((json.size() + 7) / 8 * 8, ' ');  // aligns the data for readers that map the file
  std::array<std::byte, kLengthBytes> length{};
  base::ByteWriter(length).u64(json.size());
  return std::string(reinterpret_cast<const char*>(length.data()), length.size()) + json;
}

}  // namespace lockstep::train
