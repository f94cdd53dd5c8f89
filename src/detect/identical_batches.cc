#include "detect/identical_batches.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "detect/ballot.h"
#include "detect/causes.h"

namespace lockstep::detect {
namespace {

// One equal sample may be a natural duplicate that met its twin; two in one batch, or in two steps, are not.
constexpr std::uint64_t kProof = 2;

Symptom symptom_of(const Ranks& ranks, std::uint64_t first_step, const Observation& now, std::string how) {
  Symptom symptom;
  symptom.cause = cause::kIdenticalBatches;
  symptom.ranks = ranks;
  symptom.first_step = first_step;
  symptom.message =
      fmt::format("{} train on the same samples in every step: {}", name_ranks(ranks, now.step.world), how);
  return symptom;
}

}  // namespace

void IdenticalBatches::from_fingerprints(const Observation& now, Symptoms& out) {
  std::map<Ranks, Run> runs;
  for (const audit::IdenticalGroup& group : now.audit.identical) {
    Run run{0, now.step.step, now.step.step};
    if (const auto at = runs_.find(group.ranks); at != runs_.end()) run = at->second;
    run.samples += group.distinct;
    run.last_step = now.step.step;
    runs[group.ranks] = run;
  }
  runs_ = std::move(runs);
  Ranks ranks;
  std::uint64_t first_step = now.step.step;
  std::uint64_t samples = 0;
  Json groups = Json::array();
  for (const auto& [members, run] : runs_) {
    if (run.samples < kProof) continue;
    ranks.insert(ranks.end(), members.begin(), members.end());
    first_step = std::min(first_step, run.first_step);
    samples = std::max(samples, run.samples);
    groups.push_back(members);
  }
  if (ranks.empty()) return;
  std::sort(ranks.begin(), ranks.end());
  Symptom symptom = symptom_of(ranks, first_step, now, "the work of all but one of them is wasted");
  symptom.evidence = {{"groups", groups}, {"equal_samples", samples}};
  out.push_back(std::move(symptom));
}

// Without fingerprints: bit-equal gradients and losses before the reduction have no other source. Where fingerprints
// differ, equal gradients only mean that the host showed the reduced gradient in the wrong place.
void IdenticalBatches::from_gradients(const Observation& now, Symptoms& out) {
  if (now.audit.observed) return;
  std::map<std::pair<std::uint64_t, double>, Ranks> groups;
  for (const Record& record : now.step.records) {
    const GradientRecord& gradient = record.gradient;
    if (!gradient.observed || gradient.nonfinite > 0 || gradient.sum_squares == 0) continue;
    groups[{gradient.hash, record.loss_sum}].push_back(record.rank);
  }
  Ranks ranks;
  Json members = Json::array();
  for (const auto& [key, group] : groups) {
    if (group.size() < 2) continue;
    ranks.insert(ranks.end(), group.begin(), group.end());
    members.push_back(group);
  }
  if (ranks.empty()) return;
  std::sort(ranks.begin(), ranks.end());
  Symptom symptom = symptom_of(ranks, now.step.step, now, "their losses and gradients are equal bit for bit");
  symptom.evidence = {{"groups", members}, {"equal_gradient_bits", true}};
  out.push_back(std::move(symptom));
}

// Two ranks that take the same shard of the same permutation will read the same samples, before the first one is read.
void IdenticalBatches::from_sampler(const Observation& now, Symptoms& out) {
  if (now.audit.observed) return;  // then what was read decides
  std::map<std::tuple<std::uint64_t, std::uint64_t, std::uint32_t>, Ranks> shards;
  for (const Record& record : now.step.records) {
    const SamplerFacts& sampler = record.sampler;
    if (!sampler.observed || sampler.replicas != now.step.world) continue;
    shards[{sampler.shuffle ? sampler.seed : 0, sampler.epoch, sampler.rank}].push_back(record.rank);
  }
  for (const auto& [key, ranks] : shards) {
    if (ranks.size() < 2) continue;
    Symptom symptom = symptom_of(ranks, now.step.step, now, "their samplers take the same shard");
    symptom.evidence = {{"sampler_rank", std::get<2>(key)}, {"replicas", now.step.world}};
    out.push_back(std::move(symptom));
  }
}

void IdenticalBatches::on_step(const Observation& now, Symptoms& out) {
  from_fingerprints(now, out);
  from_gradients(now, out);
  from_sampler(now, out);
}

}  // namespace lockstep::detect
