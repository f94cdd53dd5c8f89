#include "detect/rng_streams.h"

#include <fmt/format.h>

#include <algorithm>

#include "detect/ballot.h"
#include "detect/causes.h"

namespace lockstep::detect {

// Where the forward pass draws (dropout, noise), equal streams give every rank the same masks. Where it does not,
// ranks that once shared a stream use it to agree on something, and one that leaves it no longer agrees.
void RngStreams::on_step(const Observation& now, Symptoms& out) {
  constexpr auto kSlot = static_cast<std::size_t>(StateChannel::kRng);
  Ballot ballot;
  bool draws = false;
  for (const Record& record : now.step.records) {
    if (record.state[kSlot].observed) ballot.add(record.rank, record.state[kSlot].hash);
    draws = draws || record.host.forward_draws;
  }
  if (ballot.voters() < 2) return;
  Symptom symptom;
  symptom.evidence = {{"streams", ballot.groups().size()}, {"compared_ranks", ballot.voters()}};
  if (draws) {
    for (const auto& [hash, ranks] : ballot.groups()) {
      if (ranks.size() > 1) symptom.ranks.insert(symptom.ranks.end(), ranks.begin(), ranks.end());
    }
    if (symptom.ranks.empty()) return first_shared_.reset();
    if (!first_shared_) first_shared_ = now.step.step;
    std::sort(symptom.ranks.begin(), symptom.ranks.end());
    symptom.cause = cause::kRngShared;
    symptom.first_step = *first_shared_;
    symptom.message =
        fmt::format("{} draw the same random numbers in the forward pass: dropout and noise repeat across them",
                    name_ranks(symptom.ranks, now.step.world));
    out.push_back(std::move(symptom));
    return;
  }
  if (ballot.unanimous()) {
    last_equal_ = now.step.step;
    return first_unequal_.reset();
  }
  if (!last_equal_) return;  // each rank had its own stream from the start
  if (!first_unequal_) first_unequal_ = now.step.step;
  symptom.cause = cause::kRngDiverged;
  symptom.ranks = ballot.odd();
  symptom.first_step = *first_unequal_;
  symptom.evidence["last_equal_step"] = *last_equal_;
  symptom.message =
      fmt::format("the random stream that all ranks shared up to step {} differs on {}: it was drawn from unequally",
                  *last_equal_, name_ranks(symptom.ranks, now.step.world));
  out.push_back(std::move(symptom));
}

}  // namespace lockstep::detect
