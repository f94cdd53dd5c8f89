// The learning rate at an optimizer step, as Hugging Face's get_scheduler computes it.
#pragma once

#include <cstdint>

#include "lockstep/status.h"

namespace lockstep::train {

enum class ScheduleKind { kConstant, kLinear, kCosine };

struct ScheduleOptions {
  ScheduleKind kind = ScheduleKind::kLinear;
  double peak = 5e-5;
  std::int64_t warmup_steps = 0;
  std::int64_t total_steps = 1;
};

Status check_schedule(const ScheduleOptions& options);

// Rate of the update number `step`, counted from 0. Rises from 0 over the warm-up steps, then decays to 0 at
// total_steps (linearly, or along half a cosine) or stays.
double learning_rate(const ScheduleOptions& options, std::int64_t step) noexcept;

}  // namespace lockstep::train
