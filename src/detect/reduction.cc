#include "detect/reduction.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "detect/causes.h"
#include "detect/rank_history.h"

namespace lockstep::detect {
namespace {

constexpr double kSameVector = 0.005;    // residual of a gradient from its own multiple: casts to bf16 and back
constexpr double kSameFactor = 1e-4;     // relative difference of two factors that are one
constexpr double kMixtureCosine = 0.35;  // four standard deviations of 128 bins
constexpr double kJump = 32;             // over the largest rounding gap seen, with ...
constexpr std::uint64_t kLearnt = 16;    // ... so many healthy steps behind it
constexpr double kSmallestGap = 1e-5;    // of sketches that travel as float
constexpr double kLostWeight = 0.02;     // of the median weight: the rank's part is not in the sum

Symptom symptom_of(const char* cause, Ranks ranks, const Observation& now, std::string message) {
  Symptom symptom;
  symptom.cause = cause;
  symptom.ranks = std::move(ranks);
  symptom.first_step = now.step.step;
  symptom.message = std::move(message);
  return symptom;
}

// Largest element over norm: equal for multiples of one vector. Stands in for sketches in steps without them.
bool same_shape(const GradientRecord& a, const GradientRecord& b) {
  if (!(a.sum_squares > 0) || !(b.sum_squares > 0) || a.count != b.count) return false;
  const double x = a.max_abs / std::sqrt(a.sum_squares);
  const double y = b.max_abs / std::sqrt(b.sum_squares);
  return std::abs(x - y) <= 1e-5 * x;
}

// What one rank holds.
enum class Holding { kMean, kScaledMean, kLocal, kMixture, kOther };

Holding classify(const ReductionModel& model, std::size_t i, double factor) {
  const Multiple mean = model.against_mean(i);
  const Multiple local = model.against_local(i);
  const bool near_mean = mean.factor > 0 && mean.residual <= rounding_bound(model.ranks.size());
  if (near_mean) {
    return std::abs(mean.factor / factor - 1) > kSameFactor + mean.residual ? Holding::kScaledMean : Holding::kMean;
  }
  if (local.factor > 0 && local.residual <= kSameVector && !model.local_is_mean(i)) return Holding::kLocal;
  // Part reduced, part own: what separates it from the mean is a part of what separates its own gradient from it.
  Vector gap(model.mean.size());
  Vector own(model.mean.size());
  for (std::size_t b = 0; b < gap.size(); ++b) {
    gap[b] = model.reduced[i][b] / factor - model.mean[b];
    own[b] = model.local[i][b] - model.mean[b];
  }
  const double product = dot(gap, own);
  const double gap_square = dot(gap, gap);
  const double cosine = product / std::sqrt(gap_square * dot(own, own));
  const bool share = product > 0.5 * gap_square && product < 2 * gap_square;
  return cosine > kMixtureCosine && share ? Holding::kMixture : Holding::kOther;
}

Ranks select(const ReductionModel& model, const std::vector<Holding>& holdings, Holding which) {
  Ranks ranks;
  for (std::size_t i = 0; i < holdings.size(); ++i) {
    if (holdings[i] == which) ranks.push_back(model.ranks[i]);
  }
  return ranks;
}

Ranks without(const Ranks& all, const Ranks& some) {
  Ranks rest;
  std::set_difference(all.begin(), all.end(), some.begin(), some.end(), std::back_inserter(rest));
  return rest;
}

// True where each group of equal bits holds the mean of its own members: reduced in sub-groups.
bool reduced_in_groups(const ReductionModel& model, const Ballot& ballot) {
  if (ballot.groups().size() * 2 > ballot.voters()) return false;
  for (const auto& [hash, ranks] : ballot.groups()) {
    if (ranks.size() < 2) return false;
    Vector mean(model.mean.size(), 0.0);
    std::size_t member = 0;
    for (std::size_t i = 0; i < model.ranks.size(); ++i) {
      if (!std::binary_search(ranks.begin(), ranks.end(), model.ranks[i])) continue;
      for (std::size_t b = 0; b < mean.size(); ++b) mean[b] += model.local[i][b];
      member = i;
    }
    const Multiple multiple = multiple_of(model.reduced[member], mean);
    if (!(multiple.factor > 0) || multiple.residual > rounding_bound(ranks.size())) return false;
  }
  return true;
}

// The factor between the mean and what sound ranks hold: of the majority if there is one, else the median of those that
// hold a multiple of the mean.
double common_factor(const ReductionModel& model, const Ballot& ballot) {
  std::vector<double> factors;
  std::vector<double> any;
  const Ranks* majority = ballot.majority();
  for (std::size_t i = 0; i < model.ranks.size(); ++i) {
    const bool counts = majority == nullptr || std::binary_search(majority->begin(), majority->end(), model.ranks[i]);
    const Multiple multiple = model.against_mean(i);
    if (!counts || !(multiple.factor > 0)) continue;
    any.push_back(multiple.factor);
    if (multiple.residual <= rounding_bound(model.ranks.size())) factors.push_back(multiple.factor);
  }
  if (factors.empty()) factors = any;
  return factors.empty() ? 1 : median(std::move(factors));
}

Symptom unequal(const Observation& now, const ReductionModel& model, const Ballot& ballot) {
  const std::uint32_t world = now.step.world;
  const double factor = common_factor(model, ballot);
  std::vector<Holding> holdings;
  Json gaps = Json::object();
  Json factors = Json::object();
  for (std::size_t i = 0; i < model.ranks.size(); ++i) {
    const Multiple multiple = model.against_mean(i);
    holdings.push_back(classify(model, i, factor));
    if (model.ranks.size() <= 64) {
      gaps[std::to_string(model.ranks[i])] = multiple.residual;
      factors[std::to_string(model.ranks[i])] = multiple.factor;
    }
  }
  const Json evidence = {{"versions", ballot.groups().size()}, {"gap_from_mean", gaps}, {"factor", factors}};
  const auto done = [&](const char* cause, Ranks ranks, std::string message) {
    Symptom symptom = symptom_of(cause, std::move(ranks), now, std::move(message));
    symptom.evidence = evidence;
    return symptom;
  };
  const Ranks all = all_ranks(world);
  const Ranks local = select(model, holdings, Holding::kLocal);
  const Ranks mean = select(model, holdings, Holding::kMean);
  const Ranks scaled = select(model, holdings, Holding::kScaledMean);
  const Ranks mixture = select(model, holdings, Holding::kMixture);

  if (local == all) {
    return done(cause::kSyncMissing, all,
                "gradients are never averaged: every rank takes the optimizer step with its own");
  }
  if (reduced_in_groups(model, ballot)) {
    return done(cause::kSyncPartial, all,
                fmt::format("gradients are averaged within {} separate groups of ranks instead of over all {}",
                            ballot.groups().size(), world));
  }
  if (!local.empty()) {
    return done(cause::kSyncPartial, local,
                fmt::format("{} skipped the averaging and used {} own gradient", name_ranks(local, world),
                            local.size() == 1 ? "its" : "their"));
  }
  if (ballot.majority() == nullptr && mean.empty() && scaled.empty() && model.parts_add_up()) {
    return done(cause::kSyncPartial, all,
                "part of the gradient is not averaged: every rank keeps its own values there");
  }
  // Without a majority those that hold the mean are right; between two multiples of it there is no telling.
  Ranks wrong = ballot.odd();
  const bool two_multiples = world == 2 && scaled.size() == 1 && mean.size() == 1;
  if (ballot.majority() == nullptr && !mean.empty() && mean != all && !two_multiples) wrong = without(all, mean);
  if (two_multiples || (!scaled.empty() && without(wrong, scaled).empty())) {
    Symptom symptom = done(cause::kDiverged, wrong,
                           fmt::format("{} multiplies the averaged gradient by another factor than the others "
                                       "(clipping or unscaling on some ranks only), so the weights drift apart",
                                       name_ranks(wrong, world)));
    symptom.remedy = "clip and unscale on every rank with the same global norm, after the all-reduce";
    return symptom;
  }
  if (!mixture.empty() && without(wrong, mixture).empty()) {
    return done(cause::kSyncPartial, wrong,
                fmt::format("part of the gradient of {} was not averaged: it kept its own values there",
                            name_ranks(wrong, world)));
  }
  if (mean == all && ballot.majority() == nullptr && world > 2) {
    return done(cause::kNondeterministic, all,
                "the ranks hold the same average but not the same bits: each sums in an order of its own, so the "
                "weights drift apart");
  }
  return done(cause::kSyncCorrupted, wrong,
              fmt::format("{} received a wrong result from the all-reduce", name_ranks(wrong, world)));
}

// Hashes and scalars alone, in steps without sketches.
Symptom unequal(const Observation& now, const Ballot& ballot) {
  Ranks local;
  for (const Record& record : now.step.records) {
    if (!record.reduced.observed || !record.gradient.observed) continue;
    if (record.reduced.hash == record.gradient.hash || same_shape(record.reduced, record.gradient))
      local.push_back(record.rank);
  }
  const std::uint32_t world = now.step.world;
  const bool all_local = local.size() == ballot.voters();
  Ranks ranks = all_local || ballot.all_differ() ? all_ranks(world) : !local.empty() ? local : ballot.odd();
  const char* cause = all_local || (local.empty() && ballot.all_differ() && world > 2) ? cause::kSyncMissing
                      : !local.empty()                                                 ? cause::kSyncPartial
                                                                                       : cause::kSyncCorrupted;
  const std::string who = name_ranks(ranks, world);
  Symptom symptom = symptom_of(cause, std::move(ranks), now,
                               fmt::format("after the all-reduce {} hold another gradient than the rest", who));
  if (cause == cause::kSyncMissing)
    symptom.message = "after the all-reduce every rank holds a gradient of its own: they are not averaged";
  symptom.evidence = {{"versions", ballot.groups().size()}, {"sketches", false}};
  return symptom;
}

}  // namespace

// Every rank holds the same bits: they must still be the mean.
void Reduction::check_equal(const Observation& now, const ReductionModel& model, Symptoms& out) {
  const Multiple multiple = model.against_mean(0);
  const bool learnt = healthy_steps_ >= kLearnt;
  const double bound = rounding_bound(model.ranks.size());
  const double limit = learnt ? std::min(bound, std::max(kJump * largest_gap_, kSmallestGap)) : bound;
  if (multiple.factor > 0 && multiple.residual <= limit) {
    largest_gap_ = std::max(largest_gap_, multiple.residual);
    ++healthy_steps_;
    return;
  }
  Ranks lost;
  const std::vector<double> weights = model.weights(model.reduced[0]);
  if (!weights.empty()) {
    std::vector<double> sorted = weights;
    std::nth_element(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2), sorted.end());
    const double middle = sorted[sorted.size() / 2];
    for (std::size_t i = 0; i < weights.size(); ++i) {
      if (std::abs(weights[i]) < kLostWeight * std::abs(middle)) lost.push_back(model.ranks[i]);
    }
  }
  const bool some_lost = !lost.empty();
  Symptom symptom = symptom_of(
      cause::kSyncCorrupted, some_lost ? lost : all_ranks(now.step.world), now,
      some_lost
          ? fmt::format("the all-reduce lost the part of {}: every rank holds an average without it",
                        name_ranks(lost, now.step.world))
          : "every rank received the same result from the all-reduce, but it is not the average of their gradients");
  symptom.evidence = {{"gap_from_mean", multiple.residual}, {"rounding", limit}, {"factor", multiple.factor}};
  if (!weights.empty()) symptom.evidence["weights"] = weights;
  out.push_back(std::move(symptom));
}

void Reduction::on_step(const Observation& now, Symptoms& out) {
  Ballot ballot;
  Ranks broken;
  for (const Record& record : now.step.records) {
    if (!record.reduced.observed) continue;
    if (record.gradient.observed && record.gradient.nonfinite > 0) return;  // NaN has many bits: value.nonfinite speaks
    if (record.reduced.nonfinite > 0 && record.gradient.observed) broken.push_back(record.rank);
    ballot.add(record.rank, record.reduced.hash);
  }
  if (ballot.voters() < 2) return;
  if (!broken.empty()) {
    Symptom symptom = symptom_of(cause::kSyncCorrupted, broken, now,
                                 fmt::format("the all-reduce made NaN or infinity on {} out of finite gradients",
                                             name_ranks(broken, now.step.world)));
    symptom.evidence = {{"nonfinite_ranks", broken.size()}};
    out.push_back(std::move(symptom));
    return;
  }
  const std::optional<ReductionModel> model = model_of(now.step);
  if (ballot.unanimous()) {
    if (model) check_equal(now, *model, out);
    return;
  }
  out.push_back(model ? unequal(now, *model, ballot) : unequal(now, ballot));
}

}  // namespace lockstep::detect
