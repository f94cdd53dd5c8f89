// Downsampled views of a run: buckets of consecutive stored steps with the mean and both extremes of each value, so
// that a spike of one step survives any zoom.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "lockstep/stats.h"

namespace lockstep::store {

inline constexpr float kNoValue = std::numeric_limits<float>::quiet_NaN();

// Which steps a bucket covers, shared by all columns of a view.
struct Buckets {
  std::uint64_t steps_total = 0;  // before downsampling
  std::size_t steps_per_bucket = 1;
  std::vector<std::uint64_t> first, last;

  std::size_t size() const { return first.size(); }
  bool one_step_each() const { return steps_per_bucket <= 1; }
};

// The values of one column, one entry per bucket; kNoValue (NaN) where no step of the bucket had one. Float: six digits
// are what a plot can show.
struct SeriesColumn {
  std::string name;
  std::vector<float> mean, low, high;
};

struct StepSeries {
  Buckets buckets;
  std::vector<SeriesColumn> columns;  // kStepMetrics, then loss_min, loss_max, workers, missing
};

struct ExpectedColumn {
  std::string metric;
  std::vector<float> value, low, high;  // means over the bucket
};

// Ranks x buckets, row-major by rank.
struct RankGrid {
  Buckets buckets;
  std::vector<std::uint32_t> ranks;
  SeriesColumn loss, norm, leave_one_out;
  std::vector<std::uint32_t> nonfinite;  // steps with a non-finite loss or gradient
  std::vector<std::uint32_t> missing;    // steps whose record never came
};

// One cell while it is filled.
class Cell {
 public:
  void add(const Metric& value) {
    if (!value) return;
    sum_ += *value;
    low_ = *value < low_ || count_ == 0 ? *value : low_;
    high_ = *value > high_ || count_ == 0 ? *value : high_;
    ++count_;
  }
  float mean() const { return count_ > 0 ? static_cast<float>(sum_ / static_cast<double>(count_)) : kNoValue; }
  float low() const { return count_ > 0 ? static_cast<float>(low_) : kNoValue; }
  float high() const { return count_ > 0 ? static_cast<float>(high_) : kNoValue; }

 private:
  double sum_ = 0, low_ = 0, high_ = 0;
  std::size_t count_ = 0;
};

}  // namespace lockstep::store
