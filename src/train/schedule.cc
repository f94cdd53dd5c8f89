#include "train/schedule.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace lockstep::train {

Status check_schedule(const ScheduleOptions& options) {
  if (!std::isfinite(options.peak) || options.peak < 0) {
    return {StatusCode::kInvalidArgument, fmt::format("learning rate {}: expected a finite number >= 0", options.peak)};
  }
  if (options.total_steps < 1 || options.warmup_steps < 0 || options.warmup_steps > options.total_steps) {
    return {StatusCode::kInvalidArgument,
            fmt::format("schedule of {} steps with {} warm-up steps: expected 0 <= warm-up <= steps, steps >= 1",
                        options.total_steps, options.warmup_steps)};
  }
  return Status::ok();
}

double learning_rate(const ScheduleOptions& options, std::int64_t step) noexcept {
  const auto warmup = static_cast<double>(options.warmup_steps);
  const auto now = static_cast<double>(step);
  if (step < options.warmup_steps) return options.peak * (now / std::max(1.0, warmup));
  const double progress = (now - warmup) / std::max(1.0, static_cast<double>(options.total_steps) - warmup);
  switch (options.kind) {
    case ScheduleKind::kConstant:
      return options.peak;
    case ScheduleKind::kLinear:
      return options.peak * std::max(0.0, 1.0 - progress);
    case ScheduleKind::kCosine:
      return options.peak * 0.5 * (1.0 + std::cos(std::numbers::pi * std::min(1.0, progress)));
  }
  return options.peak;
}

}  // namespace lockstep::train
