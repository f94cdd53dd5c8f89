#include "comm/envelope.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/bytes.h"

namespace lockstep::comm {
namespace {

constexpr std::uint32_t kMagic = 0x4d4b4c53;  // "SLKM"
constexpr std::uint16_t kVersion = 1;
constexpr std::size_t kHeaderBytes = 24;

}  // namespace

std::vector<std::byte> pack(EnvelopeKind kind, std::uint32_t rank, std::uint64_t number,
                            std::span<const std::byte> payload) {
  std::vector<std::byte> bytes(kHeaderBytes + payload.size());
  base::ByteWriter writer(bytes);
  writer.u32(kMagic);
  writer.u16(kVersion);
  writer.u16(static_cast<std::uint16_t>(kind));
  writer.u32(rank);
  writer.u32(0);
  writer.u64(number);
  std::copy(payload.begin(), payload.end(), bytes.begin() + kHeaderBytes);
  return bytes;
}

Result<Envelope> unpack_envelope(std::span<const std::byte> bytes, std::uint32_t size) {
  base::ByteReader reader(bytes);
  const std::uint32_t magic = reader.u32();
  const std::uint16_t version = reader.u16();
  const std::uint16_t kind = reader.u16();
  Envelope envelope;
  envelope.rank = reader.u32();
  reader.skip(4);
  envelope.number = reader.u64();
  if (reader.failed() || magic != kMagic) {
    return Status(
        StatusCode::kCorrupt,
        fmt::format("{} bytes arrived that are no envelope: the group must belong to Lockstep alone", bytes.size()));
  }
  if (version != kVersion) {
    return Status(
        StatusCode::kCorrupt,
        fmt::format("rank {} sent an envelope of version {}, this rank has version {}: all ranks must run the "
                    "same lockstep version",
                    envelope.rank, version, kVersion));
  }
  if (kind < 1 || kind > 3 || envelope.rank >= size) {
    return Status(StatusCode::kCorrupt,
                  fmt::format("an envelope of kind {} from rank {} in a group of {}", kind, envelope.rank, size));
  }
  envelope.kind = static_cast<EnvelopeKind>(kind);
  envelope.payload.assign(bytes.begin() + kHeaderBytes, bytes.end());
  return envelope;
}

}  // namespace lockstep::comm
