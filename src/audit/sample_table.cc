#include "audit/sample_table.h"

#include <algorithm>
#include <bit>

namespace lockstep::audit {
namespace {

constexpr std::size_t kFirstCapacity = 1024;

// Callers may pass raw ids: the multiplication spreads them over the table and over the bits that sampling looks at.
std::uint64_t spread(std::uint64_t key) noexcept {
  key ^= key >> 32U;
  key *= 0x9e3779b97f4a7c15ULL;
  return key ^ (key >> 29U);
}

bool too_full(std::size_t size, std::size_t capacity) noexcept {
  return size * 4 > capacity * 3;
}

}  // namespace

SampleTable::SampleTable(std::size_t max_samples)
    : max_samples_(std::max<std::size_t>(max_samples, 2)), slots_(kFirstCapacity) {}

bool SampleTable::keeps(std::uint64_t fingerprint) const noexcept {
  return (spread(key_of(fingerprint)) >> 40U & ((1ULL << halvings_) - 1)) == 0;
}

SampleTable::Slot& SampleTable::slot_of(std::vector<Slot>& slots, std::uint64_t key) noexcept {
  const std::size_t mask = slots.size() - 1;
  std::size_t at = spread(key) & mask;
  while (slots[at].fingerprint != 0 && slots[at].fingerprint != key) at = (at + 1) & mask;
  return slots[at];
}

Sighting* SampleTable::find(std::uint64_t fingerprint) noexcept {
  Slot& slot = slot_of(slots_, key_of(fingerprint));
  return slot.fingerprint == 0 ? nullptr : &slot.sighting;
}

void SampleTable::insert(std::uint64_t fingerprint, const Sighting& sighting) {
  while (size_ >= max_samples_ && halvings_ < 20) {
    ++halvings_;
    rebuild(slots_.size(), [this](const Slot& slot) { return keeps(slot.fingerprint); });
  }
  if (!keeps(fingerprint)) return;
  if (too_full(size_ + 1, slots_.size())) {
    rebuild(slots_.size() * 2, [](const Slot&) { return true; });
  }
  Slot& slot = slot_of(slots_, key_of(fingerprint));
  size_ += slot.fingerprint == 0 ? 1 : 0;
  slot = {key_of(fingerprint), sighting};
}

void SampleTable::forget_from(std::uint64_t step) {
  rebuild(slots_.size(), [step](const Slot& slot) { return slot.sighting.step < step; });
}

template <class Keep>
void SampleTable::rebuild(std::size_t capacity, Keep keep) {
  std::vector<Slot> slots(capacity);
  size_ = 0;
  for (const Slot& slot : slots_) {
    if (slot.fingerprint == 0 || !keep(slot)) continue;
    slot_of(slots, slot.fingerprint) = slot;
    ++size_;
  }
  slots_ = std::move(slots);
}

}  // namespace lockstep::audit
