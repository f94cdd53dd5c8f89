// The newest deviations of each rank, to state the size of an effect once a test has found it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <vector>

namespace lockstep::detect {

// Middle of the values; the lower of two middles. Values must not be empty.
inline double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

class RankHistory {
 public:
  void add(std::uint32_t rank, std::uint64_t step, double deviation) {
    auto& entries = ranks_[rank];
    entries.emplace_back(step, deviation);
    if (entries.size() > kLength) entries.pop_front();
  }
  // Median of what the rank showed from `step` on, 0 when it showed nothing.
  double since(std::uint32_t rank, std::uint64_t step) const {
    const auto at = ranks_.find(rank);
    if (at == ranks_.end()) return 0;
    std::vector<double> values;
    for (const auto& [when, deviation] : at->second) {
      if (when >= step) values.push_back(deviation);
    }
    return values.empty() ? 0 : median(std::move(values));
  }

 private:
  static constexpr std::size_t kLength = 64;
  std::map<std::uint32_t, std::deque<std::pair<std::uint64_t, double>>> ranks_;
};

}  // namespace lockstep::detect
