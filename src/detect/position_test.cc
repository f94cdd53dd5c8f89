#include "detect/position_test.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

namespace lockstep::detect {
namespace {

// Evidence beyond this many thresholds is forgotten, so that an alarm ends soon after its fault does.
constexpr double kCap = 1000;

}  // namespace

// Geometric laws over the places, from "always first" to "in the upper quarter": a fault that is large against the
// spread is seen by the first, a shift of about one standard deviation by the others.
void PositionTest::prepare(std::size_t n) {
  if (n == n_) return;
  n_ = n;
  const double count = static_cast<double>(n);
  const double depths[kTilts] = {1.0 / 3, std::max(0.5, count / 16), std::max(0.75, count / 8),
                                 std::max(1.0, count / 4)};
  for (std::size_t tilt = 0; tilt < kTilts; ++tilt) {
    const double ratio = std::exp(-1 / depths[tilt]);
    const double first = (1 - ratio) / (1 - std::pow(ratio, count));
    sums_[tilt].assign(n + 1, 0);
    for (std::size_t place = 0; place < n; ++place) {
      sums_[tilt][place + 1] = sums_[tilt][place] + count * first * std::pow(ratio, static_cast<double>(place));
    }
  }
}

// A rank tied over the places [begin, end) takes the mean of their factors, which keeps the mean of 1.
void PositionTest::bet(Process (&processes)[kTilts], std::uint64_t step, std::size_t begin, std::size_t end,
                       bool mirrored, double cap) {
  if (mirrored) std::tie(begin, end) = std::pair(n_ - end, n_ - begin);
  for (std::size_t tilt = 0; tilt < kTilts; ++tilt) {
    const double factor = (sums_[tilt][end] - sums_[tilt][begin]) / static_cast<double>(end - begin);
    Process& process = processes[tilt];
    process.sum = std::min((process.sum + 1) * factor, cap);
    if (process.since == 0) process.first_step = step;
    process.since = std::max(0.0, process.since + std::log(factor));
  }
}

void PositionTest::judge(std::uint32_t rank, const State& state, double threshold) {
  double total = 0;
  double count = 0;
  const Process* best = nullptr;
  Side side = Side::kHigh;
  const auto take = [&](const Process(&processes)[kTilts], Side which) {
    for (const Process& process : processes) {
      total += process.sum;
      count += 1;
      if (best == nullptr || process.sum > best->sum) {
        best = &process;
        side = which;
      }
    }
  };
  if (sides_ == Sides::kBoth) take(state.high, Side::kHigh);
  take(state.low, Side::kLow);
  const double evidence = total / count;
  if (evidence >= threshold) alarms_.push_back({rank, side, best->first_step, evidence});
}

void PositionTest::add(std::uint64_t step, std::span<const Placed> values, double tie, double threshold) {
  alarms_.clear();
  if (values.size() >= 2) {
    prepare(values.size());
    std::vector<Placed> order(values.begin(), values.end());
    std::sort(order.begin(), order.end(), [](const Placed& a, const Placed& b) { return a.value > b.value; });
    for (std::size_t begin = 0, end = 0; begin < order.size(); begin = end) {
      end = begin + 1;
      while (end < order.size() && order[end - 1].value - order[end].value <= tie) ++end;
      if (end - begin == order.size()) break;  // all tied: nothing was learnt
      for (std::size_t i = begin; i < end; ++i) {
        State& state = states_[order[i].rank];
        bet(state.high, step, begin, end, false, kCap * threshold);
        bet(state.low, step, begin, end, true, kCap * threshold);
      }
    }
  }
  for (const auto& [rank, state] : states_) judge(rank, state, threshold);
}

}  // namespace lockstep::detect
