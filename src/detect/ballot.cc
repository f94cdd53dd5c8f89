#include "detect/ballot.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace lockstep::detect {

const Ranks* Ballot::majority() const {
  for (const auto& [value, ranks] : groups_) {
    if (ranks.size() * 2 > voters_) return &ranks;
  }
  return nullptr;
}

Ranks Ballot::odd() const {
  const Ranks* most = majority();
  Ranks odd;
  for (const auto& [value, ranks] : groups_) {
    if (&ranks != most) odd.insert(odd.end(), ranks.begin(), ranks.end());
  }
  std::sort(odd.begin(), odd.end());
  return odd;
}

std::string name_ranks(const Ranks& ranks, std::uint32_t world) {
  if (ranks.empty()) return "no rank";
  if (ranks.size() == 1) return fmt::format("rank {}", ranks[0]);
  if (ranks.size() == world) return world == 2 ? "both ranks" : fmt::format("all {} ranks", world);
  const bool run = ranks.back() - ranks.front() + 1 == ranks.size();
  if (run && ranks.size() > 2) return fmt::format("ranks {}-{}", ranks.front(), ranks.back());
  std::string text = "ranks ";
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (i == 16) return text + fmt::format(" and {} more", ranks.size() - i);
    text += fmt::format("{}{}", i == 0 ? "" : i + 1 == ranks.size() ? " and " : ", ", ranks[i]);
  }
  return text;
}

Ranks all_ranks(std::uint32_t world) {
  Ranks ranks(world);
  std::iota(ranks.begin(), ranks.end(), 0U);
  return ranks;
}

}  // namespace lockstep::detect
