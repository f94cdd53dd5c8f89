#include "train/study_metrics.h"

#include <array>
#include <cmath>
#include <optional>

#include "stats/cosine.h"
#include "stats/sketch_moments.h"
#include "stats/step_view.h"

namespace lockstep::train {
namespace {

constexpr std::array<StudyMetric, 13> kMetrics = {{
    {"loss_std", "loss dispersion: std", AuthorsExpect::kRise, true},
    {"loss_range", "loss dispersion: range", AuthorsExpect::kRise, true},
    {"norm_std", "gradient norm: std", AuthorsExpect::kRise, true},
    {"norm_cv", "gradient norm: std/mean", AuthorsExpect::kRise, true},
    {"cosine_mean", "mean pairwise cosine", AuthorsExpect::kFall, true},
    {"cosine_sketch", "  the same from sketches", AuthorsExpect::kFall, false},
    {"cosine_pooled", "pooled cosine", AuthorsExpect::kFall, true},
    {"noise_scale", "noise scale, sequences", AuthorsExpect::kNone, false},
    {"coverage", "samples read by any rank", AuthorsExpect::kNone, true},
    {"overlap", "  of these by several", AuthorsExpect::kNone, true},
    {"final_loss", "averaged loss at the end", AuthorsExpect::kSame, true},
    {"loss_mean", "averaged loss, all steps", AuthorsExpect::kSame, false},
    {"eval_loss", "loss on held-out rows", AuthorsExpect::kSame, false},
}};

class Mean {
 public:
  void add(const Metric& value) {
    if (!value) return;
    sum_ += *value;
    ++count_;
  }
  void put(RunMetrics& out, const char* name) const {
    if (count_ > 0) out[name] = sum_ / static_cast<double>(count_);
  }

 private:
  double sum_ = 0;
  std::uint64_t count_ = 0;
};

Metric squared(const Metric& value) {
  return value ? Metric(*value * *value) : std::nullopt;
}

// Mean of the squared norms of all ranks: the denominator of the pooled cosine.
Metric mean_square_norm(const StudyStep& step) {
  double sum = 0;
  for (const StudyStep::Rank& rank : step.ranks) {
    if (!rank.norm) return std::nullopt;
    sum += *rank.norm * *rank.norm;
  }
  if (step.ranks.empty()) return std::nullopt;
  return sum / static_cast<double>(step.ranks.size());
}

}  // namespace

std::span<const StudyMetric> study_metrics() {
  return kMetrics;
}

void StudyObserver::on_step(const Step& step, const StepStats& stats) {
  StudyStep row;
  row.step = stats.step;
  row.loss_mean = stats.loss_mean;
  row.loss_std = stats.loss_std;
  row.loss_range = stats.loss_range;
  row.norm_mean = stats.norm_mean;
  row.norm_std = stats.norm_std;
  row.norm_cv = stats.norm_cv;
  if (stats.cosine_exact) row.cosine_exact = stats.cosine_mean;
  row.cosine_sketch = stats::mean_cosine(stats::sketch_moments(stats::view_of(step))).value;
  row.cosine_pooled = stats.cosine_pooled;
  for (const RankStats& rank : stats.ranks) {
    StudyStep::Rank entry{rank.rank, rank.loss, rank.norm, rank.leave_one_out, 0};
    for (const Record& record : step.records) {
      if (record.rank == rank.rank) entry.tokens = record.tokens;
    }
    row.ranks.push_back(entry);
  }
  const std::lock_guard lock(mutex_);
  steps_.push_back(std::move(row));
}

std::vector<StudyStep> StudyObserver::steps() const {
  const std::lock_guard lock(mutex_);
  return steps_;
}

RunMetrics measure_steps(std::span<const StudyStep> steps, std::int64_t samples_per_rank) {
  Mean loss_mean, loss_std, loss_range, norm_std, norm_cv, exact, sketch, loss_variance, norm_variance, rank0;
  double signal = 0;  // sum over steps of c S2 = (N M2 - S2)/(N - 1)
  double total = 0;   // sum over steps of S2
  for (const StudyStep& step : steps) {
    loss_mean.add(step.loss_mean);
    loss_std.add(step.loss_std);
    loss_range.add(step.loss_range);
    norm_std.add(step.norm_std);
    norm_cv.add(step.norm_cv);
    exact.add(step.cosine_exact);
    sketch.add(step.cosine_sketch);
    loss_variance.add(squared(step.loss_std));
    norm_variance.add(squared(step.norm_std));
    if (!step.ranks.empty() && step.ranks.front().rank == 0) rank0.add(step.ranks.front().leave_one_out);
    const Metric square = mean_square_norm(step);
    if (square && step.cosine_pooled) {
      signal += *step.cosine_pooled * *square;
      total += *square;
    }
  }
  RunMetrics out;
  loss_mean.put(out, "loss_mean");
  loss_std.put(out, "loss_std");
  loss_range.put(out, "loss_range");
  norm_std.put(out, "norm_std");
  norm_cv.put(out, "norm_cv");
  // The sketches stand in where the trainer was never asked for the exact one.
  sketch.put(out, "cosine_mean");
  exact.put(out, "cosine_mean");
  sketch.put(out, "cosine_sketch");
  loss_variance.put(out, "loss_variance");
  norm_variance.put(out, "norm_variance");
  rank0.put(out, "cosine_rank0");
  if (total > 0) {
    const double c = signal / total;
    out["cosine_pooled"] = c;
    if (c > 0) out["noise_scale"] = static_cast<double>(samples_per_rank) * (1 / c - 1);
  }
  return out;
}

}  // namespace lockstep::train
