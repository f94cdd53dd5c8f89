#include "detect/recompute.h"

#include <fmt/format.h>

#include <algorithm>

#include "detect/ballot.h"
#include "detect/causes.h"

namespace lockstep::detect {
namespace {

constexpr std::size_t kRemembered = 512;  // steps

}  // namespace

Recompute::Past Recompute::remember(const Step& step) {
  Past past{step.step, {}};
  for (const Record& record : step.records) {
    Memory memory;
    memory.rank = record.rank;
    for (const std::uint64_t fingerprint : record.fingerprints)
      memory.data = memory.data * 0x9e3779b97f4a7c15ULL + fingerprint;
    memory.weights = record.state[static_cast<std::size_t>(StateChannel::kWeights)];
    memory.rng = record.state[static_cast<std::size_t>(StateChannel::kRng)];
    memory.gradient = record.gradient.hash;
    memory.reduced = record.reduced.hash;
    // Same inputs can be shown only where data and weights are known; with random draws also the stream.
    memory.comparable = record.gradient.observed && !record.fingerprints.empty() && memory.weights.observed &&
                        (!record.host.forward_draws || memory.rng.observed);
    past.ranks.push_back(memory);
  }
  return past;
}

void Recompute::on_step(const Observation& now, Symptoms& out) {
  Past again = remember(now.step);
  const auto at =
      std::find_if(past_.begin(), past_.end(), [&](const Past& past) { return past.step == now.step.step; });
  if (at == past_.end()) {
    past_.push_back(std::move(again));
    if (past_.size() > kRemembered) past_.pop_front();
    return;
  }
  Ranks changed;
  std::size_t compared = 0;
  bool reduced_changed = false;
  for (const Memory& memory : again.ranks) {
    const auto before =
        std::find_if(at->ranks.begin(), at->ranks.end(), [&](const Memory& m) { return m.rank == memory.rank; });
    if (before == at->ranks.end() || !memory.comparable || !before->comparable) continue;
    if (memory.data != before->data || memory.weights.hash != before->weights.hash ||
        memory.rng.hash != before->rng.hash)
      continue;
    ++compared;
    if (memory.gradient != before->gradient) changed.push_back(memory.rank);
    reduced_changed = reduced_changed || memory.reduced != before->reduced;
  }
  *at = std::move(again);
  if (compared < 2 || (changed.empty() && !reduced_changed)) return;

  Symptom symptom;
  symptom.first_step = now.step.step;
  symptom.evidence = {{"compared_ranks", compared}, {"changed_ranks", changed.size()}};
  const bool one_rank = compared > 2 && !changed.empty() && changed.size() * 4 <= compared;
  if (one_rank) {
    symptom.cause = cause::kSdcSuspect;
    symptom.ranks = changed;
    symptom.message = fmt::format(
        "{} computed step {} twice from the same data and weights with different results; the other ranks repeated "
        "theirs bit for bit",
        name_ranks(changed, now.step.world), now.step.step);
  } else {
    symptom.cause = cause::kNondeterministic;
    symptom.ranks = changed.empty() ? all_ranks(now.step.world) : changed;
    symptom.message =
        changed.empty()
            ? fmt::format(
                  "step {} was computed twice with equal gradients on every rank, but the reduction gave other bits",
                  now.step.step)
            : fmt::format("step {} was computed twice from the same data and weights and gave other gradients on {}",
                          now.step.step, name_ranks(changed, now.step.world));
  }
  out.push_back(std::move(symptom));
}

}  // namespace lockstep::detect
