#include "detect/nonfinite.h"

#include <fmt/format.h>

#include "detect/ballot.h"
#include "detect/causes.h"

namespace lockstep::detect {
namespace {

constexpr std::uint64_t kEpisodeGap = 10;  // clean steps that end an episode

}  // namespace

void Nonfinite::on_step(const Observation& now, Symptoms& out) {
  Ranks ranks;
  Json elements = Json::object();
  Json losses = Json::object();
  for (const Record& record : now.step.records) {
    const bool gradient = record.gradient.observed && record.gradient.nonfinite > 0;
    if (!gradient && record.loss_nonfinite == 0) continue;
    ranks.push_back(record.rank);
    if (gradient) elements[std::to_string(record.rank)] = record.gradient.nonfinite;
    if (record.loss_nonfinite > 0) losses[std::to_string(record.rank)] = record.loss_nonfinite;
  }
  if (ranks.empty()) {
    if (++clean_steps_ >= kEpisodeGap) first_.clear();
    return;
  }
  clean_steps_ = 0;
  if (first_.empty()) {
    first_ = ranks;
    first_step_ = now.step.step;
  }
  Symptom symptom;
  symptom.cause = cause::kNonfinite;
  symptom.ranks = first_;
  symptom.first_step = first_step_;
  symptom.evidence = {{"gradient_elements", elements}, {"losses", losses}};
  if (ranks != first_) symptom.evidence["now_on"] = ranks;
  symptom.message = fmt::format("{} produced NaN or infinity in {}; through the reduction it reaches every replica",
                                name_ranks(first_, now.step.world), losses.empty() ? "the gradient" : "the loss");
  out.push_back(std::move(symptom));
}

}  // namespace lockstep::detect
