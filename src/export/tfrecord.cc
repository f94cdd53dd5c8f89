#include "export/tfrecord.h"

#include <array>

namespace lockstep::exports {
namespace {

constexpr std::array<std::uint32_t, 256> make_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1U) != 0 ? 0x82f63b78U : 0U);
    table[i] = value;
  }
  return table;
}

constexpr std::array<std::uint32_t, 256> kTable = make_table();

void append_little_endian(std::string& out, std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i) & 0xff);
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  std::uint32_t crc = 0xffffffffU;
  for (const char c : bytes) crc = kTable[(crc ^ static_cast<unsigned char>(c)) & 0xffU] ^ (crc >> 8);
  return ~crc;
}

std::uint32_t masked_crc32c(std::string_view bytes) {
  const std::uint32_t crc = crc32c(bytes);
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8U;
}

std::string frame_record(std::string_view bytes) {
  std::string record;
  record.reserve(bytes.size() + 16);
  append_little_endian(record, bytes.size(), 8);
  append_little_endian(record, masked_crc32c(record), 4);
  record += bytes;
  append_little_endian(record, masked_crc32c(bytes), 4);
  return record;
}

}  // namespace lockstep::exports
