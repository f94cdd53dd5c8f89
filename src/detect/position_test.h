// A sequential test that needs no distribution: does one rank hold the same place among the ranks too often?
//
// Healthy workers are exchangeable: whatever the law of a step's values (heavy tails, warm-up, spikes), each rank is
// equally likely to hold each place in their order. For each rank we bet against that with tilted laws p(place); the
// factor n p(place) has mean 1 under the null. The Shiryaev-Roberts sum W <- (W + 1) n p(place) then has W_t - t as a
// martingale, so a threshold c gives at most 1/c false alarms per step, whenever the fault begins.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

namespace lockstep::detect {

enum class Side : std::uint8_t { kHigh, kLow };

// One rank's value in a step.
struct Placed {
  std::uint32_t rank = 0;
  double value = 0;
};

struct PositionAlarm {
  std::uint32_t rank = 0;
  Side side = Side::kHigh;
  std::uint64_t first_step = 0;  // estimate of the onset
  double evidence = 0;           // W
};

class PositionTest {
 public:
  enum class Sides : std::uint8_t { kBoth, kLow };
  explicit PositionTest(Sides sides = Sides::kBoth) : sides_(sides) {}

  // Values nearer to each other than `tie` share their places: differences of rounding must not add up to evidence.
  void add(std::uint64_t step, std::span<const Placed> values, double tie, double threshold);

  // Ranks whose evidence is above the threshold of the newest add. For two ranks the places of one are those of the
  // other, so either both alarm or none.
  const std::vector<PositionAlarm>& alarms() const noexcept { return alarms_; }

 private:
  struct Process {
    double sum = 0;    // W
    double since = 0;  // log evidence since `first_step`, floored at 0: dates the onset
    std::uint64_t first_step = 0;
  };
  static constexpr std::size_t kTilts = 4;
  struct State {
    Process high[kTilts];
    Process low[kTilts];
  };
  void prepare(std::size_t n);
  void bet(Process (&processes)[kTilts], std::uint64_t step, std::size_t begin, std::size_t end, bool mirrored,
           double cap);
  void judge(std::uint32_t rank, const State& state, double threshold);

  Sides sides_;
  std::size_t n_ = 0;
  std::vector<double> sums_[kTilts];  // prefix sums over places of n p(place), place 0 the highest
  std::map<std::uint32_t, State> states_;
  std::vector<PositionAlarm> alarms_;
};

}  // namespace lockstep::detect
