// The bytes that travel between processes: a fixed little-endian header and the payload, in one message.
//
// Layout (24 bytes): magic u32, version u16, kind u16, rank u32, reserved u32, number u64; the payload is the rest.
// Used where a backend has messages of its own length (MPI, c10d store). An envelope of another version is refused.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "lockstep/status.h"

namespace lockstep::comm {

enum class EnvelopeKind : std::uint16_t {
  kRecord = 1,       // number: the step
  kPublication = 2,  // number: counts rank 0's publications
  kGoodbye = 3,      // the last envelope of its sender
};

struct Envelope {
  EnvelopeKind kind = EnvelopeKind::kRecord;
  std::uint32_t rank = 0;  // of the sender
  std::uint64_t number = 0;
  std::vector<std::byte> payload;
};

std::vector<std::byte> pack(EnvelopeKind kind, std::uint32_t rank, std::uint64_t number,
                            std::span<const std::byte> payload);

// `size`: of the group; a rank outside it is refused, as are truncated and foreign bytes.
Result<Envelope> unpack_envelope(std::span<const std::byte> bytes, std::uint32_t size);

}  // namespace lockstep::comm
