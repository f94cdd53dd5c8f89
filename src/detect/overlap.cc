#include "detect/overlap.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "detect/ballot.h"
#include "detect/causes.h"

namespace lockstep::detect {
namespace {

constexpr std::uint64_t kIdProof = 3;      // repeats of sample ids; the end of an epoch pads with fewer, then wraps
constexpr double kRateProof = 1e-6;        // chance that duplicates at the assumed rate are so many
constexpr double kPlacesPlausible = 0.01;  // chance that duplicates at any rate avoid the same rank so well ...
constexpr double kPlacesProof = 1e-6;      // ... and from which on that alone is proof
constexpr double kStarBelief = 0.01;       // chance that one rank is in all repeats without being their cause
constexpr double kCoverBelief = 0.01;
constexpr std::uint64_t kEnoughToName = 12;

double choose2(double n) {
  return n * (n - 1) / 2;
}

// One rank that is in every repeat, or none.
std::optional<std::uint32_t> centre_of(const std::map<audit::RankPair, std::uint64_t>& pairs) {
  if (pairs.empty()) return std::nullopt;
  for (const std::uint32_t rank : {pairs.begin()->first.first, pairs.begin()->first.second}) {
    const bool in_all = std::all_of(pairs.begin(), pairs.end(), [rank](const auto& entry) {
      return entry.first.first == rank || entry.first.second == rank;
    });
    if (in_all) return rank;
  }
  return std::nullopt;
}

// Fewest ranks that touch all repeats, greedily.
Ranks cover_of(std::map<audit::RankPair, std::uint64_t> pairs) {
  Ranks cover;
  while (!pairs.empty()) {
    std::map<std::uint32_t, std::uint64_t> weight;
    for (const auto& [pair, count] : pairs) {
      weight[pair.first] += count;
      weight[pair.second] += count;
    }
    const auto heaviest = std::max_element(weight.begin(), weight.end(),
                                           [](const auto& a, const auto& b) { return a.second < b.second; });
    const std::uint32_t rank = heaviest->first;
    cover.push_back(rank);
    std::erase_if(pairs, [rank](const auto& e) { return e.first.first == rank || e.first.second == rank; });
  }
  std::sort(cover.begin(), cover.end());
  return cover;
}

}  // namespace

double poisson_tail(std::uint64_t count, double mean) {
  if (count == 0) return 1;
  if (mean <= 0) return 0;
  // Sum of the terms from `count` on, each from the one before it.
  const double k = static_cast<double>(count);
  double term = std::exp(k * std::log(mean) - mean - std::lgamma(k + 1));
  double sum = 0;
  for (double i = k + 1; term > 1e-18 * (sum + 1e-300) && i < k + 10000; ++i) {
    sum += term;
    term *= mean / i;
  }
  return std::min(1.0, sum);
}

double natural_probability(std::uint64_t cross, std::uint64_t same, std::uint32_t world, bool star) {
  const double n = world;
  const double all = static_cast<double>(cross + same);
  // P(at most `same` of them on the same rank), each with chance 1/n.
  double places = 0;
  for (std::uint64_t s = 0; s <= same; ++s) {
    const double k = static_cast<double>(s);
    places += std::exp(std::lgamma(all + 1) - std::lgamma(k + 1) - std::lgamma(all - k + 1) - k * std::log(n) +
                       (all - k) * std::log1p(-1 / n));
  }
  // Given that a repeat is between ranks, a given rank is one of the two with chance 2/n; any of n may be the centre.
  const double centre = star && world > 2 ? std::min(1.0, n * std::pow(2 / n, static_cast<double>(cross))) : 1;
  return std::min(1.0, places * centre);
}

Ranks ranks_of_overlap(const std::map<audit::RankPair, std::uint64_t>& pairs, std::uint32_t world) {
  if (world <= 2) return all_ranks(world);
  std::uint64_t total = 0;
  for (const auto& [pair, count] : pairs) total += count;
  const double n = world;
  if (const auto centre = centre_of(pairs)) {
    if (n * std::pow(2 / n, static_cast<double>(total)) <= kStarBelief) return {*centre};
    return total >= kEnoughToName ? all_ranks(world) : Ranks{};
  }
  const Ranks cover = cover_of(pairs);
  const double size = static_cast<double>(cover.size());
  if (size * 2 < n) {
    const double touched = 1 - choose2(n - size) / choose2(n);
    const double sets = std::exp(std::lgamma(n + 1) - std::lgamma(size + 1) - std::lgamma(n - size + 1));
    if (sets * std::pow(touched, static_cast<double>(total)) <= kCoverBelief) return cover;
  }
  return all_ranks(world);
}

// Ranks that split one data set must shuffle it with one seed and epoch. At an epoch's end ranks may change over one
// step apart, so an unequal epoch must last.
void Overlap::from_sampler(const Observation& now, Symptoms& out) {
  Ballot seeds;
  Ballot epochs;
  std::map<std::uint32_t, std::uint64_t> seed_of;
  for (const Record& record : now.step.records) {
    const SamplerFacts& sampler = record.sampler;
    if (!sampler.observed || !sampler.shuffle || sampler.replicas != now.step.world) continue;
    seeds.add(record.rank, sampler.seed);
    epochs.add(record.rank, sampler.epoch);
    seed_of[record.rank] = sampler.seed;
  }
  const bool by_seed = !seeds.unanimous();
  const bool by_epoch = !by_seed && !epochs.unanimous();
  if (!by_seed && !by_epoch) {
    mismatch_.reset();
    return;
  }
  const Ranks ranks = by_seed ? seeds.odd() : epochs.odd();
  if (!mismatch_ || mismatch_->ranks != ranks) mismatch_ = {ranks, now.step.step, 0};
  if (++mismatch_->steps < 2 && by_epoch) return;
  Symptom symptom;
  symptom.cause = cause::kOverlap;
  symptom.ranks = ranks;
  symptom.first_step = mismatch_->first_step;
  symptom.ranks_are_current = true;
  symptom.evidence = {{"source", "sampler"},
                      {by_seed ? "seeds" : "epochs_differ", by_seed ? Json(seed_of) : Json(true)}};
  symptom.message = fmt::format(
      "the sampler of {} shuffles with another {} than the rest, so shards overlap and part of the data is never read",
      name_ranks(ranks, now.step.world), by_seed ? "seed" : "epoch");
  out.push_back(std::move(symptom));
}

void Overlap::from_repeats(const Observation& now, Symptoms& out) {
  const audit::Repeats& repeats = now.audit.repeats;
  if (!now.audit.observed || repeats.cross == 0 || now.step.records.empty()) return;
  const bool ids = now.step.records.front().host.sample_ids;
  const bool star = now.step.world > 2 && centre_of(repeats.pairs).has_value();
  const double places = natural_probability(repeats.cross, repeats.same, now.step.world, star);
  // Duplicates to be expected: of m samples out of D, twins at the assumed rate meet d m^2/(2 D) times; D is at least
  // m.
  const double read = static_cast<double>(now.audit.current.consumed) * now.audit.kept_fraction;
  const double size = std::max(static_cast<double>(now.audit.current.dataset_size) * now.audit.kept_fraction, read);
  const double expected = now.thresholds.natural_duplicates * read * read / (2 * size);
  const double rate = poisson_tail(repeats.cross, expected);

  const bool proven = (ids && repeats.cross >= kIdProof && repeats.cross > 3 * repeats.same) || places <= kPlacesProof;
  if (!proven && !(rate <= kRateProof && places <= kPlacesPlausible)) return;
  Ranks ranks = ranks_of_overlap(repeats.pairs, now.step.world);
  if (ranks.empty()) return;

  Symptom symptom;
  symptom.cause = cause::kOverlap;
  symptom.ranks = std::move(ranks);
  symptom.first_step = repeats.first_step;
  symptom.certainty = proven ? Certainty::kCertain : Certainty::kStatistical;
  symptom.confidence = proven ? 1 : 1 - places;
  symptom.ranks_are_current = true;
  const double unseen =
      1 - static_cast<double>(now.audit.current.distinct) /
              std::max(1.0, static_cast<double>(now.audit.current.consumed) * now.audit.kept_fraction);
  symptom.evidence = {{"source", "fingerprints"},
                      {"repeats_on_other_ranks", repeats.cross},
                      {"repeats_on_same_rank", repeats.same},
                      {"repeated_share", unseen},
                      {"natural_probability", places}};
  symptom.message = fmt::format(
      "{} samples came up again on another rank within the epoch ({} on the same): the shards of {} overlap",
      repeats.cross, repeats.same, name_ranks(symptom.ranks, now.step.world));
  out.push_back(std::move(symptom));
}

void Overlap::on_step(const Observation& now, Symptoms& out) {
  from_sampler(now, out);
  if (!mismatch_) from_repeats(now, out);
}

}  // namespace lockstep::detect
