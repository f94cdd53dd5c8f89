// data.overlap: shards that should be disjoint are not, because ranks shuffle differently.
//
// Proof by the sampler's own facts (unequal seeds), or by samples that come back on another rank before the epoch is
// over. Natural duplicates also do that, but they come back on the same rank as often as on any other.
#pragma once

#include <optional>

#include "detect/detector.h"

namespace lockstep::detect {

class Overlap final : public Detector {
 public:
  void on_step(const Observation& now, Symptoms& out) override;

 private:
  void from_sampler(const Observation& now, Symptoms& out);
  void from_repeats(const Observation& now, Symptoms& out);

  struct Mismatch {
    Ranks ranks;
    std::uint64_t first_step = 0;
    std::uint64_t steps = 0;
  };
  std::optional<Mismatch> mismatch_;
};

// Which ranks explain the repeats: one whose permutation is the odd one is in all of them. Empty: not known yet.
Ranks ranks_of_overlap(const std::map<audit::RankPair, std::uint64_t>& pairs, std::uint32_t world);

// Probability, or a bound of it, that natural duplicates at any rate make such repeats: `cross` between ranks, `same`
// within, and all of `cross` on one rank if `star`.
double natural_probability(std::uint64_t cross, std::uint64_t same, std::uint32_t world, bool star);

// Probability of at least `count` events of a Poisson variable.
double poisson_tail(std::uint64_t count, double mean);

}  // namespace lockstep::detect
