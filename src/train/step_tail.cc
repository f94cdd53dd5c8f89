#include "train/step_tail.h"

#include <cmath>

namespace lockstep::train {
namespace {

void split(double value, float* out) noexcept {
  out[0] = static_cast<float>(value);
  out[1] = std::isfinite(out[0]) ? static_cast<float>(value - static_cast<double>(out[0])) : 0.0F;
}

double join(const float* in) noexcept {
  return static_cast<double>(in[0]) + static_cast<double>(in[1]);
}

}  // namespace

void StepTail::set(std::uint32_t rank, const RankStep& values) noexcept {
  float* slots = &slots_[1 + kPerRank * rank];
  split(values.loss, slots);
  split(static_cast<double>(values.tokens), slots + 2);
  split(static_cast<double>(values.response_tokens), slots + 4);
}

RankStep StepTail::get(std::uint32_t rank) const noexcept {
  const float* slots = &slots_[1 + kPerRank * rank];
  return {join(slots), std::llround(join(slots + 2)), std::llround(join(slots + 4))};
}

}  // namespace lockstep::train
