#include "monitor/step_builder.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace lockstep::monitor {
namespace {

DigestOptions digest_options(const RecordLayout& layout, std::uint32_t k, std::uint32_t threads, bool sketch) {
  DigestOptions options;
  options.k = k;
  options.seed = layout.seed;
  options.threads = threads;
  options.sketch = sketch;
  return options;
}

void fill(GradientRecord& out, const Digest& digest) {
  out.count = digest.count;
  out.sum_squares = digest.sum_squares;
  out.max_abs = digest.max_abs;
  out.nonfinite = digest.nonfinite;
  out.hash = digest.hash;
}

std::vector<float> narrow(std::span<const double> sketch) {
  static constexpr double kLimit = std::numeric_limits<float>::max();
  std::vector<float> out(sketch.size());
  std::transform(sketch.begin(), sketch.end(), out.begin(),
                 [](double bin) { return static_cast<float>(std::clamp(bin, -kLimit, kLimit)); });
  return out;
}

// Merges `digest` into `into` with its sketch folded to k bins. May throw std::bad_alloc.
bool merge_folded(Digest& into, const Digest& digest, std::uint32_t k) {
  if (digest.sketch.size() % k != 0) return false;
  Digest folded = digest;
  if (!digest.sketch.empty()) folded.sketch = fold_sketch(digest.sketch, k);
  into.merge(folded);
  return true;
}

}  // namespace

StepBuilder::StepBuilder(std::uint32_t rank, std::uint32_t world, const RecordLayout& layout, std::uint32_t threads)
    : layout_(layout),
      threads_(threads),
      gradient_sketched_(digest_options(layout, layout.k, threads, true)),
      gradient_plain_(digest_options(layout, layout.k, threads, false)),
      // A sketch folds exactly, so the reduced gradient is sketched at the smallest dimension that there is.
      reduced_sketched_(digest_options(layout, std::max(kMinSketchDim, layout.k_reduced), threads, true)),
      reduced_plain_(digest_options(layout, layout.k, threads, false)),
      direction_(digest_options(layout, layout.k, threads, false)) {
  record_.rank = rank;
  record_.world = world;
  record_.fingerprints.reserve(layout.max_fingerprints);
}

void StepBuilder::begin(std::uint64_t step, bool sketch) noexcept {
  Record fresh;
  fresh.rank = record_.rank;
  fresh.world = record_.world;
  fresh.step = step;
  fresh.fingerprints = std::move(record_.fingerprints);
  fresh.fingerprints.clear();
  record_ = std::move(fresh);
  sketch_ = sketch;
  direction_seen_ = false;
  gradient().reset();
  reduced().reset();
  direction_.reset();
  given_gradient_ = {};
  given_reduced_ = {};
}

bool StepBuilder::add_gradient(const Segment& segment) noexcept {
  if (!gradient().add(segment)) return false;
  record_.gradient.observed = true;
  return true;
}

bool StepBuilder::add_reduced(const Segment& segment) noexcept {
  if (!reduced().add(segment)) return false;
  record_.reduced.observed = true;
  return true;
}

bool StepBuilder::add_gradient(const Digest& digest) noexcept try {
  if (!merge_folded(given_gradient_, digest, layout_.k)) return false;
  record_.gradient.observed = true;
  return true;
} catch (...) {
  return false;
}

bool StepBuilder::add_reduced(const Digest& digest) noexcept try {
  if (!merge_folded(given_reduced_, digest, std::max(kMinSketchDim, layout_.k_reduced))) return false;
  record_.reduced.observed = true;
  return true;
} catch (...) {
  return false;
}

bool StepBuilder::add_direction_sum(const Segment& segment) noexcept {
  if (!direction_.add(segment)) return false;
  direction_seen_ = true;
  return true;
}

bool StepBuilder::add_state(StateChannel channel, const Segment& segment) noexcept {
  if (size_of(segment.dtype) == 0 || (segment.data == nullptr && segment.count > 0)) return false;
  add_state(channel, content_hash(segment, threads_));
  return true;
}

void StepBuilder::add_state(StateChannel channel, std::uint64_t hash) noexcept {
  StateHash& slot = record_.state[static_cast<std::size_t>(channel)];
  slot.observed = true;
  slot.hash += hash;
}

void StepBuilder::add_batch(std::span<const std::uint64_t> fingerprints) noexcept {
  const std::size_t room = layout_.max_fingerprints - record_.fingerprints.size();
  const auto kept = fingerprints.first(std::min(room, fingerprints.size()));
  record_.fingerprints.insert(record_.fingerprints.end(), kept.begin(), kept.end());  // capacity was reserved
  record_.fingerprint_count += fingerprints.size();
}

void StepBuilder::add_loss(double loss, std::uint64_t tokens) noexcept {
  if (!std::isfinite(loss)) {
    ++record_.loss_nonfinite;
    return;
  }
  record_.loss_sum += loss;
  ++record_.loss_count;
  record_.token_loss_sum += loss * static_cast<double>(tokens);
  record_.tokens += tokens;
}

double StepBuilder::gradient_sum_squares() noexcept {
  return gradient().result().sum_squares;
}

Record StepBuilder::finish() {
  Record record = record_;
  // A sketch that covers only part of the elements says nothing: given digests without one take it away from all.
  Digest gradient_digest = gradient().result();
  Digest reduced_digest = reduced().result();
  const auto join = [](Digest& ours, const Digest& given) {
    const bool partial = given.count > 0 && given.sketch.empty();
    ours.merge(given);
    if (partial) ours.sketch.clear();
  };
  join(gradient_digest, given_gradient_);
  join(reduced_digest, given_reduced_);
  fill(record.gradient, gradient_digest);
  fill(record.reduced, reduced_digest);
  if (direction_seen_) record.direction_sum_squares = direction_.result().sum_squares;
  if (sketch_ && record.gradient.observed) record.gradient.sketch = narrow(gradient_digest.sketch);
  if (sketch_ && record.reduced.observed && !reduced_digest.sketch.empty()) {
    record.reduced.sketch = narrow(fold_sketch(reduced_digest.sketch, layout_.k_reduced));
  }
  return record;
}

}  // namespace lockstep::monitor
