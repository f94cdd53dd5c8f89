// Fingerprint -> where and when the sample was seen: open addressing, 32 bytes a slot, grows up to a bound.
//
// Beyond the bound it keeps a half, a quarter, ... of the fingerprints, chosen by their own bits, so that a sample is
// either always kept or never: repeats among the kept ones stand for all, with an error of 1/sqrt(kept repeats).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace lockstep::audit {

struct Sighting {
  std::uint64_t step = 0;
  std::uint32_t position = 0;        // in its rank's stream of samples
  std::uint32_t first_position = 0;  // likewise, of the first sighting of all
  std::uint32_t rank = 0;
  std::uint32_t epoch = 0;
};

class SampleTable {
 public:
  explicit SampleTable(std::size_t max_samples);

  // False for a fingerprint that is outside the kept part: it must not be looked up or inserted.
  bool keeps(std::uint64_t fingerprint) const noexcept;
  double kept_fraction() const noexcept { return 1.0 / static_cast<double>(1ULL << halvings_); }

  // Null when it was never seen. Valid until the next insert or forget.
  Sighting* find(std::uint64_t fingerprint) noexcept;

  // Adds a fingerprint that find() did not find. May halve what is kept.
  void insert(std::uint64_t fingerprint, const Sighting& sighting);

  // Drops everything seen at `step` or later: training went back to it.
  void forget_from(std::uint64_t step);

  std::size_t size() const noexcept { return size_; }

 private:
  static constexpr std::uint64_t kZeroKey = 0x6c6f636b73746570;  // stands for the fingerprint 0
  struct Slot {
    std::uint64_t fingerprint = 0;  // 0: empty
    Sighting sighting;
  };
  static std::uint64_t key_of(std::uint64_t fingerprint) noexcept { return fingerprint == 0 ? kZeroKey : fingerprint; }
  Slot& slot_of(std::vector<Slot>& slots, std::uint64_t key) noexcept;
  template <class Keep>
  void rebuild(std::size_t capacity, Keep keep);

  std::size_t max_samples_;
  std::size_t size_ = 0;
  unsigned halvings_ = 0;
  std::vector<Slot> slots_;
};

}  // namespace lockstep::audit
