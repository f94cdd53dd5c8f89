#include "detect/simulation.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "audit/fingerprint.h"

namespace lockstep::detect {
namespace {

constexpr std::size_t kElements = 256;
constexpr std::size_t kReduced = 128;

std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  return audit::fingerprint_of_id(a * 0x9e3779b97f4a7c15ULL + b);
}

std::uint64_t hash_of(const std::vector<double>& values) {
  std::uint64_t hash = 0;
  for (const double value : values) {
    const auto narrow = static_cast<float>(value);
    std::uint32_t bits = 0;
    std::memcpy(&bits, &narrow, sizeof bits);
    hash = hash * 0x100000001b3ULL + bits;
  }
  return hash;
}

double to_bf16(double value) {
  auto narrow = static_cast<float>(value);
  std::uint32_t bits = 0;
  std::memcpy(&bits, &narrow, sizeof bits);
  bits = (bits + 0x7fffU + ((bits >> 16U) & 1U)) & 0xffff0000U;
  std::memcpy(&narrow, &bits, sizeof bits);
  return narrow;
}

void fill(GradientRecord& out, const std::vector<double>& gradient, std::size_t bins, bool sketch) {
  out.observed = true;
  out.count = gradient.size();
  out.hash = hash_of(gradient);
  if (sketch) out.sketch.assign(bins, 0.0F);
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    if (!std::isfinite(gradient[i])) {
      ++out.nonfinite;
      continue;
    }
    out.sum_squares += gradient[i] * gradient[i];
    out.max_abs = std::max(out.max_abs, std::abs(gradient[i]));
    if (sketch) out.sketch[i % bins] += static_cast<float>(gradient[i]);
  }
}

}  // namespace

struct Simulation::State {
  State(const SimulationOptions& given, Hook given_hook)
      : options(given), hook(std::move(given_hook)), random(given.seed) {
    const std::uint32_t n = options.workers;
    weights.assign(n, mix(options.seed, 1));
    buffers.assign(n, mix(options.seed, 2));
    optimizer.assign(n, mix(options.seed, 3));
    config.assign(n, mix(options.seed, 4));
    for (std::uint32_t rank = 0; rank < n; ++rank) rng.push_back(options.dropout ? mix(options.seed, 100 + rank) : 5);
    signal.resize(kElements);
    for (double& element : signal) element = normal(random);
    if (options.sampler_seeds.empty()) options.sampler_seeds.assign(n, 42);
    start_epoch(0);
  }

  void start_epoch(std::uint64_t epoch) {
    this->epoch = epoch;
    at = 0;
    orders.clear();
    for (const std::uint64_t seed : options.sampler_seeds) {
      std::vector<std::uint32_t> order(options.dataset);
      std::iota(order.begin(), order.end(), 0U);
      std::mt19937_64 shuffle(mix(mix(options.seed, seed), options.set_epoch ? epoch : 0));
      if (options.shuffle) std::shuffle(order.begin(), order.end(), shuffle);
      orders.push_back(std::move(order));
    }
  }

  // As a distributed sampler deals: rank, rank + N, ...; the end is padded with the beginning.
  std::uint64_t draw(std::uint32_t rank, std::uint64_t position) const {
    const std::uint64_t index = options.replicated ? position : position * options.workers + rank;
    return orders[rank][index % options.dataset];
  }

  std::uint64_t per_epoch() const {
    return options.replicated ? options.dataset : (options.dataset + options.workers - 1) / options.workers;
  }

  std::uint64_t fingerprint(std::uint64_t id) const {
    if (options.sample_ids) return audit::fingerprint_of_id(id);
    // The first `duplicates` share of the ids are copies, in content, of ids of the second half.
    const double place = static_cast<double>(id) / static_cast<double>(options.dataset);
    return audit::fingerprint_of_id(place < options.duplicates / 2 ? options.dataset - 1 - id : id);
  }

  double chance() { return std::uniform_real_distribution<double>(0, 1)(random); }

  SimulationOptions options;
  Hook hook;
  std::mt19937_64 random;
  std::normal_distribution<double> normal;
  std::vector<double> signal;
  std::uint64_t step = 0;
  std::uint64_t epoch = 0;
  std::uint64_t at = 0;  // samples that each rank drew in the epoch
  std::vector<std::vector<std::uint32_t>> orders;
  std::vector<std::uint64_t> weights, buffers, optimizer, rng, config;

  void make_batches(World& world) {
    for (std::uint32_t rank = 0; rank < options.workers; ++rank) {
      for (std::uint32_t i = 0; i < options.batch && at + i < per_epoch(); ++i)
        world.samples[rank].push_back(draw(rank, at + i));
    }
    at += options.batch;
  }

  void make_losses(World& world, double spike, std::uint32_t hard) {
    const double level = 1.2 + (options.warmup ? 2.5 * std::exp(-static_cast<double>(step) / 200) : 0);
    for (std::uint32_t rank = 0; rank < options.workers; ++rank) {
      world.tokens[rank] =
          std::max(1.0, std::round(100.0 * options.batch * std::exp(options.token_spread * normal(random))));
      const double spread = options.loss_spread * std::sqrt(100.0 * options.batch / world.tokens[rank]);
      world.losses[rank] = level * spike * std::exp(spread * normal(random)) * (rank == hard ? 3 : 1);
    }
  }

  void make_gradients(World& world, double spike, std::uint32_t hard) {
    const double level = (options.warmup ? 1 + 2 * std::exp(-static_cast<double>(step) / 100) : 1) * spike;
    const double common = std::sqrt(options.cosine);
    const double own = std::sqrt(1 - options.cosine);
    // The signal turns slowly.
    for (double& element : signal) element = 0.98 * element + std::sqrt(1 - 0.98 * 0.98) * normal(random);
    for (std::uint32_t rank = 0; rank < options.workers; ++rank) {
      double factor = level * std::exp(options.norm_spread * normal(random));
      if (options.tail > 0 && chance() < 0.02) factor *= std::pow(1 - chance(), -1 / options.tail);
      if (rank == hard) factor *= 20;
      world.local[rank].resize(kElements);
      for (std::size_t i = 0; i < kElements; ++i) {
        world.local[rank][i] = static_cast<float>(factor * (common * signal[i] + own * normal(random)) / 16);
      }
    }
  }

  void reduce(World& world) {
    std::vector<double> mean(kElements, 0.0);
    const double divisor = options.sum_instead_of_mean ? 1 : options.workers;
    for (const auto& gradient : world.local) {
      for (std::size_t i = 0; i < kElements; ++i) {
        mean[i] += options.reduce_in_bf16 ? to_bf16(gradient[i]) : gradient[i];
        if (options.reduce_in_bf16) mean[i] = to_bf16(mean[i]);
      }
    }
    double square = 0;
    for (double& element : mean) {
      element = static_cast<float>(element / divisor);
      square += element * element;
    }
    if (options.clip > 0 && std::sqrt(square) > options.clip) {
      for (double& element : mean) element = static_cast<float>(element * options.clip / std::sqrt(square));
    }
    world.reduced.assign(options.workers, mean);
  }

  void fill_record(World& world, std::uint32_t rank) {
    Record& record = world.records[rank];
    record.rank = rank;
    record.world = options.workers;
    record.step = step;
    if (std::isfinite(world.losses[rank])) {
      record.loss_sum = world.losses[rank];
      record.loss_count = 1;
    } else {
      record.loss_nonfinite = 1;
    }
    if (options.tokens) {
      record.tokens = static_cast<std::uint64_t>(world.tokens[rank]);
      record.token_loss_sum = record.loss_sum * world.tokens[rank];
    }
    if (options.gradients) {
      const bool sketch = step % options.sketch_interval == 0;
      fill(record.gradient, world.local[rank], kElements, sketch);
      fill(record.reduced, world.reduced[rank], kReduced, sketch);
    }
    record.host = {options.dropout, options.sample_ids, false};
    if (options.fingerprints) {
      for (const std::uint64_t id : world.samples[rank]) record.fingerprints.push_back(fingerprint(id));
      record.fingerprint_count = record.fingerprints.size();
    }
    if (options.sampler_facts) {
      record.sampler = {true,
                        options.shuffle,
                        options.replicated ? 0 : rank,
                        options.replicated ? 1 : options.workers,
                        options.sampler_seeds[rank],
                        options.set_epoch ? epoch : 0,
                        options.dataset};
    }
    if (options.state_interval > 0 && step % options.state_interval == 0) {
      record.state = {StateHash{true, weights[rank]}, StateHash{true, buffers[rank]}, StateHash{true, optimizer[rank]},
                      StateHash{true, rng[rank]}, StateHash{true, config[rank]}};
    }
  }
};

Simulation::Simulation(const SimulationOptions& options, Hook hook)
    : state_(std::make_unique<State>(options, std::move(hook))) {}
Simulation::~Simulation() = default;
std::uint64_t Simulation::epoch() const {
  return state_->epoch;
}

void Simulation::go_back(std::uint64_t step) {
  const std::uint64_t steps = state_->step - step;
  state_->step = step;
  state_->at -= std::min(state_->at, steps * state_->options.batch);
}

Step Simulation::next() {
  State& s = *state_;
  const std::uint32_t n = s.options.workers;
  if (s.at >= s.per_epoch()) s.start_epoch(s.epoch + 1);
  World world{s.options,
              s.step,
              s.random,
              std::vector<Record>(n),
              {},
              {},
              {},
              std::vector<double>(n),
              std::vector<double>(n),
              s.weights,
              s.buffers,
              s.optimizer,
              s.rng,
              s.config};
  world.samples.resize(n);
  world.local.resize(n);
  const auto at = [&](Point point) {
    if (s.hook) s.hook(world, point);
  };
  at(Point::kStart);
  const double spike = s.chance() < s.options.spike_rate ? 8 : 1;
  const std::uint32_t hard = s.chance() < s.options.hard_batch_rate ? static_cast<std::uint32_t>(s.random() % n) : n;
  s.make_batches(world);
  at(Point::kBatch);
  s.make_losses(world, spike, hard);
  s.make_gradients(world, spike, hard);
  at(Point::kLocal);
  s.reduce(world);
  at(Point::kReduced);
  at(Point::kState);
  for (std::uint32_t rank = 0; rank < n; ++rank) s.fill_record(world, rank);
  at(Point::kRecord);

  Step step;
  step.step = s.step;
  step.world = n;
  for (std::uint32_t rank = 0; rank < n; ++rank) {
    if (rank > 0 && s.chance() < s.options.missing_rate) {
      step.missing.push_back(rank);
    } else {
      step.records.push_back(std::move(world.records[rank]));
    }
    const std::uint64_t reduced = hash_of(world.reduced[rank]);
    s.optimizer[rank] = mix(s.optimizer[rank], reduced);
    s.weights[rank] = mix(s.weights[rank], s.optimizer[rank]);
    s.buffers[rank] = mix(s.buffers[rank], 1);
    s.rng[rank] = mix(s.rng[rank], 2);
  }
  ++s.step;
  return step;
}

}  // namespace lockstep::detect
