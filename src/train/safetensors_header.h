// The safetensors format, as bytes: 8 bytes of little-endian header length, a JSON header, then the tensors' data.
//
// The header says for each tensor its dtype, shape and byte range in the data. A header that lies (ranges past the end,
// overlapping, with holes, or not the size that shape and dtype need) is refused before a byte of data is used. Nothing
// here touches files or libtorch, so that sanitizers and fuzzing reach all of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/status.h"

namespace lockstep::train {

// Ceiling of the reference implementation; a terabyte model needs a tenth of it.
inline constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;

enum class TensorDtype { kBool, kU8, kI8, kI16, kU16, kF16, kBf16, kI32, kU32, kF32, kF64, kI64, kU64 };

std::size_t dtype_bytes(TensorDtype dtype) noexcept;
const char* dtype_name(TensorDtype dtype) noexcept;  // as the format spells it: "F32", "BF16"

struct TensorInfo {
  std::string name;
  TensorDtype dtype = TensorDtype::kF32;
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0;  // offsets into the data section
  std::uint64_t end = 0;

  std::uint64_t bytes() const noexcept { return end - begin; }
};

std::string shape_text(std::span<const std::int64_t> shape);  // "[2, 3]"

struct SafetensorsHeader {
  std::vector<TensorInfo> tensors;  // in the order of their data
  std::map<std::string, std::string> metadata;
  std::uint64_t data_begin = 0;  // position of the data section in the file
};

// Header length from the first eight bytes; refuses what cannot be true of a file of `file_bytes`.
Result<std::uint64_t> read_header_length(std::span<const std::byte> first_bytes, std::uint64_t file_bytes,
                                         const std::string& source);

// Header from its JSON text. `source` names the file in messages.
Result<SafetensorsHeader> parse_safetensors_header(std::string_view json, std::uint64_t file_bytes,
                                                   const std::string& source);

// Length field and padded JSON of a file that holds `tensors` one after another, in the given order: their begin and
// end are ignored. Refuses equal names and shapes that overflow.
Result<std::string> format_safetensors_header(std::span<const TensorInfo> tensors,
                                              const std::map<std::string, std::string>& metadata);

}  // namespace lockstep::train
