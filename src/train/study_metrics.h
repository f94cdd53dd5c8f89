// The metrics of a study, and the observer that measures them in one run.
//
// A run's value of a metric is its mean over the run's steps, except where a mean of ratios would mislead: the pooled
// cosine is the ratio of the means of its two terms, and the noise scale follows from it.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/monitor.h"

namespace lockstep::train {

// What the authors expect from S1-1 to S1-3.
enum class AuthorsExpect { kNone, kRise, kFall, kSame };

struct StudyMetric {
  std::string_view name;   // in every output
  std::string_view title;  // for people
  AuthorsExpect expected;
  bool compared;  // takes part in the comparison of settings; the others are shown beside
};

// In the order of every table.
std::span<const StudyMetric> study_metrics();

// Values of one run; a metric without a verdict is absent.
using RunMetrics = std::map<std::string, double, std::less<>>;

// One step as steps.csv has it.
struct StudyStep {
  std::uint64_t step = 0;
  Metric loss_mean, loss_std, loss_range, norm_mean, norm_std, norm_cv;
  Metric cosine_exact, cosine_sketch, cosine_pooled;
  struct Rank {
    std::uint32_t rank = 0;
    Metric loss, norm, leave_one_out;
    std::uint64_t tokens = 0;
  };
  std::vector<Rank> ranks;
};

// Collects a run's steps. on_step comes from the monitor's thread; the rest may be called from any, best after the run.
class StudyObserver : public Observer {
 public:
  void on_step(const Step& step, const StepStats& stats) override;
  std::vector<StudyStep> steps() const;

 private:
  mutable std::mutex mutex_;
  std::vector<StudyStep> steps_;
};

// Everything that the steps give. `samples_per_rank` is b, sequences per rank and step, the unit of the noise scale.
// Beside the metrics of the table: loss_variance, norm_variance (means over steps of the squared dispersions, which
// have closed expectations) and cosine_rank0 (rank 0 against the mean of the others).
RunMetrics measure_steps(std::span<const StudyStep> steps, std::int64_t samples_per_rank);

}  // namespace lockstep::train
