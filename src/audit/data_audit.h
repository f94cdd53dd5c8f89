// The data audit: which samples which rank read, step by step, and what that says of the sampling.
//
// It states facts only: batches that are equal, repeats between and within ranks, epochs and their coverage, stretches
// that a rank reads again in the same order. Which of them is a fault is for src/detect to say. docs/audit.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "audit/sample_table.h"
#include "lockstep/record.h"

namespace lockstep::audit {

struct AuditOptions {
  // Samples that are remembered exactly, at 43 to 86 bytes each; beyond, a part of them stands for all.
  std::size_t max_samples = 6'000'000;
};

// What one rank read in one step.
struct RankBatch {
  std::uint32_t rank = 0;
  std::span<const std::uint64_t> fingerprints;
  std::uint64_t count = 0;  // of samples; more than fingerprints when not all were stored
  SamplerFacts sampler;
};

// Ranks that read the same samples in this step, in whatever order inside their batch.
struct IdenticalGroup {
  std::vector<std::uint32_t> ranks;
  std::size_t distinct = 0;  // different samples in that batch: one alone may be a natural duplicate
};

using RankPair = std::pair<std::uint32_t, std::uint32_t>;  // first < second

// Samples seen again before the epoch was over. Those of the newest step are not in it yet: the step after them shows
// whether they were the wrap-around into a new epoch.
struct Repeats {
  std::uint64_t cross = 0;  // seen before by another rank
  std::uint64_t same = 0;   // seen before by the same rank: natural duplicates, or drawing with replacement
  std::uint64_t first_step = 0;
  std::map<RankPair, std::uint64_t> pairs;  // of `cross`
};

// A rank that reads samples it (or another) has read before, in the same order.
struct Replay {
  std::uint32_t rank = 0;
  std::uint64_t run = 0;           // samples in order so far; one alone has no order yet
  std::int64_t distance = 0;       // in samples of the rank's stream: the same on all ranks that replay together
  std::uint64_t first_step = 0;    // of the run
  std::uint64_t earlier_step = 0;  // where the newest of them was seen before
};

struct EpochCoverage {
  std::uint64_t epoch = 0;         // counted by the audit from 0
  std::uint64_t consumed = 0;      // samples that the ranks read in it
  std::uint64_t distinct = 0;      // of them; an estimate when kept_fraction < 1
  std::uint64_t dataset_size = 0;  // as the sampler says; 0: not known
  std::uint64_t first_step = 0;
  bool complete = true;  // every sample's fingerprint was stored
};

// The audit's view after a step.
struct AuditReport {
  std::uint64_t step = 0;
  bool observed = false;  // the step carried fingerprints
  std::vector<IdenticalGroup> identical;
  Repeats repeats;  // of the current epoch
  std::vector<Replay> replays;
  EpochCoverage current;
  std::optional<EpochCoverage> closed;  // the epoch that ended with this step
  std::uint64_t step_samples = 0;       // read by all ranks in this step
  double kept_fraction = 1;
  double epoch_samples = 0;  // different samples in the longest epoch so far
};

// One thread at a time. Memory is bounded by the options plus O(ranks).
class DataAudit {
 public:
  explicit DataAudit(const AuditOptions& options = {});

  // Batches of the ranks that are here, one per rank. A step that is not after the last one means that training went
  // back: what was read from there on is forgotten. The report is valid until the next call.
  const AuditReport& add(std::uint64_t step, std::span<const RankBatch> batches);

 private:
  struct Sample {  // one of the step, with what was known of it before
    std::uint64_t fingerprint = 0;
    std::uint32_t rank = 0;
    std::uint32_t position = 0;
    bool known = false;
    Sighting before;
  };
  struct Repeat {
    std::uint32_t first = 0;
    std::uint32_t second = 0;
    std::uint64_t step = 0;
  };
  struct Chain {  // consecutive samples of a rank at one distance from their earlier sighting
    std::int64_t distance = 0;
    std::uint64_t run = 0;
    std::uint64_t first_step = 0;
    std::uint64_t earlier_step = 0;
    void extend(std::int64_t to, const Sample& sample, std::uint64_t step);
  };
  struct Stream {
    std::uint32_t position = 0;
    Chain to_latest;  // against the newest sighting of each sample
    Chain to_first;   // against the first: an old epoch's order may come back after others
  };

  void find_identical(std::span<const RankBatch> batches);
  void look_up(std::span<const RankBatch> batches);
  void follow_chains(std::uint64_t step);
  double known_share() const;
  bool told_new_epoch(std::span<const RankBatch> batches);
  void settle_epoch(std::uint64_t step, bool told);
  void start_epoch(std::uint64_t step);
  void collect_repeats(std::uint64_t step);
  void commit_pending();
  void remember(std::uint64_t step);

  SampleTable table_;
  AuditReport report_;
  std::vector<Sample> samples_;  // of the step at hand
  std::vector<Sample> wrapped_;  // of the steps just before it that may belong to a new epoch
  std::vector<Repeat> pending_;
  std::map<std::uint32_t, Stream> streams_;
  std::uint64_t wrap_samples_ = 0;
  std::optional<std::uint64_t> told_epoch_;
  std::optional<std::uint64_t> last_step_;
};

}  // namespace lockstep::audit
