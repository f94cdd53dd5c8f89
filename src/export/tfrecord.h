// The framing of TensorBoard's event files: each record with its length and a masked CRC-32C of both.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace lockstep::exports {

// Castagnoli polynomial, reflected: crc32c("123456789") is 0xe3069283.
std::uint32_t crc32c(std::string_view bytes);
// As the format stores it: rotated and shifted, so that a CRC of data that holds CRCs stays sound.
std::uint32_t masked_crc32c(std::string_view bytes);

// u64 length, u32 masked CRC of the length, the bytes, u32 masked CRC of the bytes; little-endian.
std::string frame_record(std::string_view bytes);

}  // namespace lockstep::exports
