#include "detect/epoch_replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "detect/ballot.h"
#include "detect/causes.h"

namespace lockstep::detect {
namespace {

constexpr double kLeastRun = 3;
// Chance that a fresh shuffle of D samples puts r more of them at the distance of the first: (N/D)^r, because the
// samples of all N ranks share D/N places. 25 nats are one in 7e10.
constexpr double kProofNats = 25;

}  // namespace

// A run on one rank is proof; so are shorter runs on every rank at one distance. An unshuffled sampler repeats by
// design.
void EpochReplay::on_step(const Observation& now, Symptoms& out) {
  if (now.audit.replays.empty()) return;
  for (const Record& record : now.step.records) {
    if (record.sampler.observed && !record.sampler.shuffle) return;
  }
  const double places = std::max(2.0, now.audit.epoch_samples / static_cast<double>(now.step.world));
  const double needed = std::max(kLeastRun, kProofNats / std::log(places));
  Ranks ranks;
  double matches = 0;  // places that had to be hit: all but the first of each run, or of all runs at one distance
  bool together = now.audit.replays.size() == now.step.records.size();
  std::uint64_t first_step = now.step.step;
  std::uint64_t earlier_step = now.step.step;
  for (const audit::Replay& replay : now.audit.replays) {
    together = together && replay.distance == now.audit.replays.front().distance;
    matches += static_cast<double>(replay.run);
    first_step = std::min(first_step, replay.first_step);
    earlier_step = std::min(earlier_step, replay.earlier_step);
    if (static_cast<double>(replay.run - 1) >= needed) ranks.push_back(replay.rank);
  }
  if (together && matches - 1 >= needed) ranks = all_ranks(now.step.world);
  if (ranks.empty()) return;

  Symptom symptom;
  symptom.cause = cause::kEpochReplay;
  symptom.ranks = ranks;
  symptom.first_step = first_step;
  symptom.evidence = {{"samples_in_order", matches}, {"earlier_step", earlier_step}};
  symptom.message = fmt::format("{} read samples again in the order of step {}: the epochs are not shuffled anew",
                                name_ranks(ranks, now.step.world), earlier_step);
  out.push_back(std::move(symptom));
}

}  // namespace lockstep::detect
