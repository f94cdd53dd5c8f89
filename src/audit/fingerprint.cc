#include "audit/fingerprint.h"

#include <xxhash.h>

#include <algorithm>
#include <array>

#include "base/bytes.h"

namespace lockstep::audit {
namespace {

// In blocks on the stack, each seeded with the hash so far: widened and little-endian whatever the host's order is.
template <class Id>
std::uint64_t hash_ids(std::span<const Id> ids) noexcept {
  constexpr std::size_t kBlock = 128;
  std::array<std::byte, 8 * kBlock> bytes;
  std::uint64_t hash = ids.size();
  while (!ids.empty()) {
    const auto block = ids.first(std::min(kBlock, ids.size()));
    base::ByteWriter out(bytes);
    for (const Id id : block) out.u64(static_cast<std::uint64_t>(static_cast<std::int64_t>(id)));
    hash = XXH3_64bits_withSeed(bytes.data(), out.position(), hash);
    ids = ids.subspan(block.size());
  }
  return hash;
}

}  // namespace

std::uint64_t fingerprint(std::span<const std::byte> bytes) noexcept {
  return XXH3_64bits(bytes.data(), bytes.size());
}

std::uint64_t fingerprint(std::span<const std::int64_t> tokens) noexcept {
  return hash_ids(tokens);
}

std::uint64_t fingerprint(std::span<const std::int32_t> tokens) noexcept {
  return hash_ids(tokens);
}

std::uint64_t fingerprint_of_id(std::uint64_t id) noexcept {
  std::array<std::byte, 8> bytes;
  base::ByteWriter(bytes).u64(id);
  return XXH3_64bits(bytes.data(), bytes.size());
}

}  // namespace lockstep::audit
