// The 64-bit fingerprint of a sample: equal content gives an equal number on every rank, machine and run.
// Two different samples share one with probability 2^-64: among 10 million samples, one in 400,000 runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace lockstep::audit {

std::uint64_t fingerprint(std::span<const std::byte> bytes) noexcept;

// Of token ids. The width of the integer does not matter: each id is hashed as 64 bits, little-endian.
std::uint64_t fingerprint(std::span<const std::int64_t> tokens) noexcept;
std::uint64_t fingerprint(std::span<const std::int32_t> tokens) noexcept;

// Of a sample that the caller knows by number. Spreads the ids, so that they may be mixed and sampled by value.
std::uint64_t fingerprint_of_id(std::uint64_t id) noexcept;

}  // namespace lockstep::audit
