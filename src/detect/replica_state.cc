#include "detect/replica_state.h"

#include <fmt/format.h>

#include "detect/ballot.h"
#include "detect/causes.h"

namespace lockstep::detect {
namespace {

struct Channel {
  StateChannel channel;
  const char* cause;
  const char* what;
};

constexpr std::array kChannels = {
    Channel{StateChannel::kWeights, cause::kDiverged, "weights"},
    Channel{StateChannel::kBuffers, cause::kBuffersDiverged, "buffers (batch-norm statistics, averages)"},
    Channel{StateChannel::kOptimizer, cause::kOptimizerDiverged, "optimizer state"},
    Channel{StateChannel::kConfig, cause::kConfigMismatch, "configuration"},
};

}  // namespace

// State is hashed as it is when the step begins, so weights that differ in the very first step began apart.
void ReplicaState::on_step(const Observation& now, Symptoms& out) {
  const bool first = !first_watched_;
  if (first) first_watched_ = now.step.step;
  for (const Channel& channel : kChannels) {
    const auto slot = static_cast<std::size_t>(channel.channel);
    Ballot ballot;
    for (const Record& record : now.step.records) {
      if (record.state[slot].observed) ballot.add(record.rank, record.state[slot].hash);
    }
    if (ballot.voters() < 2) continue;
    if (ballot.unanimous()) {
      last_equal_[slot] = now.step.step;
      first_unequal_[slot].reset();
      from_the_start_[slot] = false;
      continue;
    }
    if (!first_unequal_[slot]) {
      first_unequal_[slot] = now.step.step;
      from_the_start_[slot] = first;
    }
    const bool began_apart = from_the_start_[slot];
    const bool weights = channel.channel == StateChannel::kWeights;
    Symptom symptom;
    symptom.cause = weights && began_apart ? cause::kInitMismatch : channel.cause;
    symptom.ranks = ballot.odd();
    symptom.first_step = *first_unequal_[slot];
    symptom.evidence = {{"versions", ballot.groups().size()}, {"compared_ranks", ballot.voters()}};
    if (last_equal_[slot]) symptom.evidence["last_equal_step"] = *last_equal_[slot];
    const std::string who = name_ranks(symptom.ranks, now.step.world);
    symptom.message = ballot.majority() != nullptr
                          ? fmt::format("the {} of {} {} from the other ranks' {}", channel.what, who,
                                        symptom.ranks.size() == 1 ? "differs" : "differ",
                                        began_apart ? "from the first step on" : "although they were equal before")
                          : fmt::format("the {} of the ranks differ ({} versions on {} ranks) {}", channel.what,
                                        ballot.groups().size(), ballot.voters(),
                                        began_apart ? "from the first step on" : "although they were equal before");
    if (!began_apart && !last_equal_[slot])
      symptom.message = fmt::format("the {} of {} differ between ranks", channel.what, who);
    out.push_back(std::move(symptom));
  }
}

}  // namespace lockstep::detect
