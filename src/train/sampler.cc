#include "train/sampler.h"

#include <fmt/format.h>

#include <cstddef>
#include <numeric>
#include <utility>

namespace lockstep::train {
namespace {

Status check_samples(std::int64_t samples) {
  if (samples < 0 || samples > kMaxSamples) {
    return Status(
        StatusCode::kInvalidArgument,
        fmt::format("a data set of {} samples cannot be shuffled: 0 to {} are supported", samples, kMaxSamples));
  }
  return Status::ok();
}

}  // namespace

std::vector<std::int64_t> TorchGenerator::randperm(std::int64_t n) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  for (std::int64_t i = 0; i < n - 1; ++i) {
    std::int64_t offset = static_cast<std::int64_t>(engine_()) % (n - i);
    std::swap(order[static_cast<std::size_t>(i)], order[static_cast<std::size_t>(i + offset)]);
  }
  return order;
}

void TorchGenerator::skip_randperm(std::int64_t n, std::uint64_t count) {
  if (n > 1) engine_.discard(static_cast<std::uint64_t>(n - 1) * count);
}

Result<std::vector<std::int64_t>> distributed_order(const DistributedSamplerOptions& options) {
  if (Status status = check_samples(options.samples); !status) return status;
  if (options.replicas < 1 || options.rank < 0 || options.rank >= options.replicas) {
    return Status(StatusCode::kInvalidArgument,
                  fmt::format("sampler for rank {} of {} workers: the rank must be in [0, workers)", options.rank,
                              options.replicas));
  }
  const std::int64_t n = options.samples;
  const std::int64_t per_rank =
      options.drop_last ? n / options.replicas : n / options.replicas + (n % options.replicas != 0 ? 1 : 0);

  std::vector<std::int64_t> all;
  if (options.shuffle) {
    all = TorchGenerator(options.seed + options.epoch).randperm(n);
  } else {
    all.resize(static_cast<std::size_t>(n));
    std::iota(all.begin(), all.end(), std::int64_t{0});
  }
  std::vector<std::int64_t> own;
  own.reserve(static_cast<std::size_t>(per_rank));
  for (std::int64_t i = 0; i < per_rank; ++i) {
    // Past the end the order begins anew: that is torch's padding, which repeats samples so that all ranks get as many.
    own.push_back(all[static_cast<std::size_t>((options.rank + i * options.replicas) % n)]);
  }
  return own;
}

Result<std::vector<std::int64_t>> random_order(std::int64_t samples, std::uint64_t seed, std::uint64_t epoch) {
  if (Status status = check_samples(samples); !status) return status;
  TorchGenerator generator(seed);
  // Each pass over torch's RandomSampler draws two permutations: the one it yields, and at its end another of which it
  // yields nothing.
  generator.skip_randperm(samples, 2 * epoch);
  return generator.randperm(samples);
}

}  // namespace lockstep::train
