// Ranks that should hold the same number: who does not.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "detect/symptom.h"

namespace lockstep::detect {

class Ballot {
 public:
  void add(std::uint32_t rank, std::uint64_t value) { groups_[value].push_back(rank), ++voters_; }

  std::size_t voters() const noexcept { return voters_; }
  bool unanimous() const noexcept { return groups_.size() <= 1; }
  bool all_differ() const noexcept { return groups_.size() == voters_; }
  const std::map<std::uint64_t, Ranks>& groups() const noexcept { return groups_; }

  // The group of more than half of the voters, or null: between two ranks nobody is right by number.
  const Ranks* majority() const;
  // Those outside the majority; all voters when there is none.
  Ranks odd() const;

 private:
  std::map<std::uint64_t, Ranks> groups_;
  std::size_t voters_ = 0;
};

// "rank 3", "ranks 1, 2 and 5", "all 8 ranks", "ranks 0-6" for long runs.
std::string name_ranks(const Ranks& ranks, std::uint32_t world);
Ranks all_ranks(std::uint32_t world);

}  // namespace lockstep::detect
