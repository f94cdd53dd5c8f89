// The metrics of a step by name: one table that the store, the report and every exporter walk, so that a new metric of
// StepStats needs one row here and one migration of the schema.
#pragma once

#include <algorithm>
#include <array>
#include <string_view>

#include "lockstep/stats.h"

namespace lockstep::store {

struct StepMetric {
  std::string_view name;  // of the member, the column, the JSON field
  Metric StepStats::*member;
};

inline constexpr std::array kStepMetrics = {
    StepMetric{"loss_mean", &StepStats::loss_mean},
    StepMetric{"loss_std", &StepStats::loss_std},
    StepMetric{"loss_range", &StepStats::loss_range},
    StepMetric{"token_loss", &StepStats::token_loss},
    StepMetric{"norm_mean", &StepStats::norm_mean},
    StepMetric{"norm_std", &StepStats::norm_std},
    StepMetric{"norm_cv", &StepStats::norm_cv},
    StepMetric{"cosine_mean", &StepStats::cosine_mean},
    StepMetric{"cosine_mean_error", &StepStats::cosine_mean_error},
    StepMetric{"cosine_pooled", &StepStats::cosine_pooled},
    StepMetric{"cosine_pooled_sketch", &StepStats::cosine_pooled_sketch},
    StepMetric{"reduced_norm", &StepStats::reduced_norm},
    StepMetric{"mean_norm", &StepStats::mean_norm},
    StepMetric{"noise_ratio", &StepStats::noise_ratio},
    StepMetric{"noise_ratio_smooth", &StepStats::noise_ratio_smooth},
    StepMetric{"reduction_gap", &StepStats::reduction_gap},
    StepMetric{"reduction_scale", &StepStats::reduction_scale},
};

// Smallest and largest worker's loss of a step: the band that the mean hides.
struct LossBand {
  Metric low, high;
};

inline LossBand loss_band(const StepStats& stats) {
  LossBand band;
  for (const RankStats& rank : stats.ranks) {
    if (!rank.loss) continue;
    band.low = band.low ? std::min(*band.low, *rank.loss) : *rank.loss;
    band.high = band.high ? std::max(*band.high, *rank.loss) : *rank.loss;
  }
  return band;
}

}  // namespace lockstep::store
