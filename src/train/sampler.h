// Orders of samples, bit-equal to PyTorch's samplers but without torch.
//
// A study of "who read what" is only as good as its sampler, so these follow torch 1.13 to the last index: the CPU
// generator is MT19937 seeded with the low 32 bits, randperm a forward Fisher-Yates shuffle that takes one 32-bit draw
// modulo the remaining length per swap. sampler_test.cc holds values of the real thing and, where Debian's
// python3-torch is installed, compares with it directly.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "lockstep/status.h"

namespace lockstep::train {

// From this size on torch versions differ (newer ones draw 64 bits per swap), so larger sets are refused.
inline constexpr std::int64_t kMaxSamples = 0xffffffffLL / 20;

// torch.Generator().manual_seed(seed) on the CPU, as far as permutations go.
class TorchGenerator {
 public:
  explicit TorchGenerator(std::uint64_t seed) : engine_(static_cast<std::uint32_t>(seed)) {}

  // torch.randperm(n, generator=self); consecutive calls continue the stream as in torch. n in [0, kMaxSamples].
  std::vector<std::int64_t> randperm(std::int64_t n);
  // Moves the stream past `count` permutations of n.
  void skip_randperm(std::int64_t n, std::uint64_t count);

 private:
  std::mt19937 engine_;  // the standard fixes its bits
};

struct DistributedSamplerOptions {
  std::int64_t samples = 0;
  std::int64_t replicas = 1;
  std::int64_t rank = 0;
  std::uint64_t seed = 0;
  std::uint64_t epoch = 0;
  bool shuffle = true;
  bool drop_last = false;
};

// list(torch.utils.data.DistributedSampler(...)) after set_epoch(epoch). With drop_last and fewer samples than replicas
// it is empty, as there.
Result<std::vector<std::int64_t>> distributed_order(const DistributedSamplerOptions& options);

// The epoch-th list(torch.utils.data.RandomSampler(range(samples), generator=manual_seed(seed))), epochs from 0. The
// generator lives on from epoch to epoch, so this is not the order of seed + epoch (only epoch 0 is).
Result<std::vector<std::int64_t>> random_order(std::int64_t samples, std::uint64_t seed, std::uint64_t epoch);

}  // namespace lockstep::train
