// Puts one step's metrics together: decides nothing itself beyond which source a metric is taken from.
#include <algorithm>
#include <cmath>
#include <utility>

#include "lockstep/stats.h"
#include "stats/cosine.h"
#include "stats/dispersion.h"
#include "stats/noise_scale.h"
#include "stats/reduction_check.h"
#include "stats/sketch_moments.h"
#include "stats/step_view.h"

namespace lockstep {
namespace {

using namespace stats;  // NOLINT(google-build-using-namespace): this file is the front of that folder

// A |G| beyond the mean of the norms by more than this cannot be the norm of their mean.
constexpr double kLargestRatio = 1.05;

// How many gradients have a direction, where every rank of the group is accounted for.
std::size_t count_directions(const StepView& view) {
  return static_cast<std::size_t>(std::count_if(
      view.ranks.begin(), view.ranks.end(), [](const RankView& rank) { return rank.gradient.norm.value_or(0) > 0; }));
}

// The host's |sum of g_i/n_i|^2; every rank holds the same, the lowest that has it speaks.
Metric direction_sum(const StepView& view) {
  if (!view.every_rank_sound) return std::nullopt;
  for (const RankView& rank : view.ranks) {
    const double value = rank.record->direction_sum_squares;
    if (std::isfinite(value) && value >= 0) return value;
  }
  return std::nullopt;
}

void fill_mean_cosine(const StepView& view, const SketchMoments& moments, StepStats& out) {
  const Metric exact = direction_sum(view);
  const MeanCosine cosine = exact ? mean_cosine(*exact, count_directions(view)) : mean_cosine(moments);
  out.cosine_mean = cosine.value;
  out.cosine_mean_error = cosine.error;
  out.cosine_exact = exact && cosine.value;
}

// Mean of |g_i|^2 over the ranks that `takes_part` names, from the exact scalars.
template <class TakesPart>
double mean_square(const StepView& view, TakesPart takes_part) {
  double sum = 0;
  double count = 0;
  for (std::size_t i = 0; i < view.ranks.size(); ++i) {
    if (!takes_part(i)) continue;
    sum += view.ranks[i].record->gradient.sum_squares;
    count += 1;
  }
  return count > 0 ? sum / count : 0;
}

// From sketches: over the ranks that have one. Returns the terms of the noise scale.
std::optional<NoiseTerms> fill_pooled_sketch(const StepView& view, const SketchMoments& moments, StepStats& out) {
  if (moments.rows.empty()) return std::nullopt;
  std::vector<bool> sketched(view.ranks.size(), false);
  for (const SketchRow& row : moments.rows) sketched[row.rank] = true;
  const double s2 = mean_square(view, [&](std::size_t i) { return sketched[i]; });
  const Metric ratio = pooled_ratio(moments);
  out.mean_norm = std::sqrt(s2 * ratio.value_or(0));
  if (!ratio || moments.rows.size() < 2) return std::nullopt;
  out.cosine_pooled_sketch = pooled_cosine(*ratio, moments.rows.size());
  return noise_terms(s2, s2 * *ratio, moments.rows.size());
}

// Exact, from |G|^2: only where G is the mean over all the ranks that are here.
std::optional<NoiseTerms> fill_pooled(const StepView& view, Metric m2, StepStats& out) {
  const std::size_t n = view.ranks.size();
  if (!m2 || !view.every_rank_sound || n < 2) return std::nullopt;
  const double s2 = mean_square(view, [](std::size_t) { return true; });
  if (!(s2 > 0) || *m2 > kLargestRatio * s2) return std::nullopt;
  out.cosine_pooled = pooled_cosine(*m2 / s2, n);
  return noise_terms(s2, *m2, n);
}

}  // namespace

struct StatsEngine::State {
  StatsOptions options;
  NoiseScale noise;
  bool trust_scale = true;  // until a sketched step shows that G is a multiple of the mean, not the mean
};

StatsEngine::StatsEngine(const StatsOptions& options) : state_(new State) {
  set_options(options);
}
StatsEngine::~StatsEngine() {
  delete state_;
}
StatsEngine::StatsEngine(StatsEngine&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
StatsEngine& StatsEngine::operator=(StatsEngine&& other) noexcept {
  std::swap(state_, other.state_);
  return *this;
}

void StatsEngine::set_options(const StatsOptions& options) {
  state_->options = options;
  const double keep = options.noise_smoothing;
  state_->options.noise_smoothing = keep >= 0 && keep < 1 ? keep : StatsOptions{}.noise_smoothing;
}

StepStats StatsEngine::update(const Step& step) {
  const StepView view = view_of(step);
  StepStats out;
  out.step = step.step;
  out.workers = static_cast<std::uint32_t>(view.ranks.size());
  out.missing = static_cast<std::uint32_t>(step.missing.size());
  out.ranks.resize(view.ranks.size());
  for (std::size_t i = 0; i < view.ranks.size(); ++i) out.ranks[i].rank = view.ranks[i].record->rank;
  fill_losses(view, out);
  fill_norms(view, out);

  const SketchMoments moments = sketch_moments(view);
  fill_mean_cosine(view, moments, out);
  for (const SketchRow& row : moments.rows) out.ranks[row.rank].leave_one_out = leave_one_out(moments, row);
  if (state_->options.cosine_matrix && view.ranks.size() <= state_->options.max_matrix_workers) {
    out.cosine_matrix = cosine_matrix(moments, view.ranks.size());
  }

  const ReductionCheck check = check_reduction(view, moments);
  out.reduction_scale = check.scale;
  out.reduction_gap = check.gap;
  for (std::size_t i = 0; i < check.gaps.size(); ++i) out.ranks[i].reduction_gap = check.gaps[i];
  state_->trust_scale = state_->trust_scale && !scale_is_off(check);
  const ReducedSquare reduced = reduced_square(view, check, state_->trust_scale);
  out.reduced_norm = reduced.norm;

  const std::optional<NoiseTerms> from_sketches = fill_pooled_sketch(view, moments, out);
  const std::optional<NoiseTerms> from_scalars = fill_pooled(view, reduced.mean_square, out);
  if (const std::optional<NoiseTerms>& terms = from_scalars ? from_scalars : from_sketches) {
    out.noise_ratio = terms->ratio();
    state_->noise.add(*terms, state_->options.noise_smoothing);
    out.noise_ratio_smooth = state_->noise.ratio();
  }
  return out;
}

}  // namespace lockstep
