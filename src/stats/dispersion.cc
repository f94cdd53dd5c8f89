#include "stats/dispersion.h"

#include <algorithm>
#include <cmath>

namespace lockstep::stats {

void Dispersion::add(double value) noexcept {
  min_ = count_ == 0 ? value : std::min(min_, value);
  max_ = count_ == 0 ? value : std::max(max_, value);
  ++count_;
  const double delta = value - mean_;
  mean_ += delta / static_cast<double>(count_);
  squares_ += delta * (value - mean_);
}

Metric Dispersion::mean() const {
  if (count_ == 0) return std::nullopt;
  return mean_;
}

Metric Dispersion::std() const {
  if (count_ < 2) return std::nullopt;
  return std::sqrt(std::max(squares_, 0.0) / static_cast<double>(count_));
}

Metric Dispersion::range() const {
  if (count_ < 2) return std::nullopt;
  return max_ - min_;
}

void fill_losses(const StepView& view, StepStats& out) {
  Dispersion losses;
  double token_loss_sum = 0;
  double tokens = 0;
  for (std::size_t i = 0; i < view.ranks.size(); ++i) {
    const Record& record = *view.ranks[i].record;
    if (record.loss_count > 0 && std::isfinite(record.loss_sum)) {
      out.ranks[i].loss = record.loss_sum / record.loss_count;
      losses.add(*out.ranks[i].loss);
    }
    if (record.tokens > 0 && std::isfinite(record.token_loss_sum)) {
      token_loss_sum += record.token_loss_sum;
      tokens += static_cast<double>(record.tokens);
    }
  }
  out.loss_mean = losses.mean();
  out.loss_std = losses.std();
  out.loss_range = losses.range();
  if (tokens > 0) out.token_loss = token_loss_sum / tokens;
}

void fill_norms(const StepView& view, StepStats& out) {
  Dispersion norms;
  for (std::size_t i = 0; i < view.ranks.size(); ++i) {
    out.ranks[i].norm = view.ranks[i].gradient.norm;
    if (out.ranks[i].norm) norms.add(*out.ranks[i].norm);
  }
  out.norm_mean = norms.mean();
  out.norm_std = norms.std();
  if (out.norm_std && *out.norm_mean > 0) out.norm_cv = *out.norm_std / *out.norm_mean;
}

}  // namespace lockstep::stats
