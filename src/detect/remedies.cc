#include "detect/remedies.h"

#include "detect/causes.h"

namespace lockstep::detect {
namespace {

struct Row {
  std::string_view cause;
  const char* remedy;
};

constexpr Row kRemedies[] = {
    {cause::kIdenticalBatches,
     "give each rank its own shard: DistributedSampler(dataset, num_replicas=world, rank=rank), or split the stream by "
     "rank; check that the rank is read after the process group exists"},
    {cause::kOverlap,
     "use one sampler seed (and one set_epoch value) on all ranks; only the rank of the sampler may differ"},
    {cause::kCoverageLoss,
     "shard the data once: num_replicas must be the number of ranks, and the data set handed to the sampler the whole "
     "one"},
    {cause::kEpochReplay,
     "call sampler.set_epoch(epoch) at the start of each epoch, and restore epoch and position of the sampler on "
     "resume"},
    {cause::kDataSkew,
     "look at this rank's samples: shuffle before sharding, and check its files, filters and tokenizer"},
    {cause::kSyncMissing,
     "call the wrapped module (ddp(x), not ddp.module(x)) in the forward pass, or add the missing all-reduce before "
     "the "
     "optimizer step"},
    {cause::kSyncPartial,
     "reduce every parameter on every rank in the last micro-batch: no_sync only before it, find_unused_parameters for "
     "unused ones, one process group for all ranks"},
    {cause::kSyncCorrupted,
     "re-run with another transport (NCCL_P2P_DISABLE=1, another algorithm, gloo) and with communication overlap off; "
     "if "
     "it stays on one rank, take its device or link out"},
    {cause::kInitMismatch,
     "seed every rank alike before the model is built, or broadcast rank 0's weights after it; on resume load one "
     "checkpoint everywhere"},
    {cause::kDiverged,
     "find what changes weights on one rank only (clipping, learning rate, manual updates); broadcast rank 0's weights "
     "to "
     "repair"},
    {cause::kBuffersDiverged,
     "broadcast buffers (broadcast_buffers=True), use synchronised batch norm, and update averages on all ranks"},
    {cause::kOptimizerDiverged,
     "load the same optimizer state on all ranks and step it on all of them; broadcast rank 0's state to repair"},
    {cause::kRankMismatch,
     "check what this rank multiplies its loss by: accumulation steps, world size, loss scale must be those of the "
     "others"},
    {cause::kTokenSkew,
     "divide the summed loss by the token count of all ranks (all-reduce the count), or balance lengths across ranks"},
    {cause::kImpossibleNorm,
     "reduce the gradient, and its norm, exactly once: average or sum, not both, and clip by the norm of the result"},
    {cause::kRngShared, "seed the generator that the forward pass draws from with seed + rank"},
    {cause::kRngDiverged,
     "let every rank draw the same numbers from the shared generator, and use another one for work on one rank only"},
    {cause::kConfigMismatch,
     "start every rank with the same configuration and code version; compare the ranks' configs"},
    {cause::kNonfinite,
     "look at this rank's batch of that step; skip steps with non-finite gradients on any rank, and check its loss "
     "scale"},
    {cause::kRankOutlier,
     "compare this rank's data, code version and device with the others'; recompute one of its steps on another rank"},
    {cause::kSdcSuspect,
     "recompute the step on this rank and on another one; if they differ take the device out and run a stress test"},
    {cause::kNondeterministic,
     "fix the algorithm and order of the reduction (deterministic mode, reproducible all-reduce) where bits must "
     "repeat"},
};

}  // namespace

const char* remedy_of(std::string_view cause) noexcept {
  for (const Row& row : kRemedies) {
    if (row.cause == cause) return row.remedy;
  }
  return "compare the named ranks with the others";
}

}  // namespace lockstep::detect
