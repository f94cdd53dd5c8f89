// The record: what one rank says of one step, and how it travels.
//
// Packed it is little-endian, versioned, checksummed and of fixed layout per run. docs/record.md has the bytes.
// Unpacking trusts nothing: a truncated, foreign or inconsistent record is refused with a message that names rank and
// reason.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "lockstep/digest.h"
#include "lockstep/export.h"
#include "lockstep/status.h"

namespace lockstep {

inline constexpr std::uint16_t kRecordVersion = 1;

// What a rank may hash of its state. A slot that was not observed takes no part in any comparison.
enum class StateChannel : std::uint8_t { kWeights = 0, kBuffers = 1, kOptimizer = 2, kRng = 3, kConfig = 4 };
inline constexpr std::size_t kStateChannels = 5;

// Stable lower-case name, e.g. "weights".
LOCKSTEP_API const char* to_string(StateChannel channel) noexcept;

// The shape that all records of a run share. Ranks whose layouts differ cannot be compared.
struct RecordLayout {
  std::uint32_t k = kDefaultSketchDim;  // sketch of the gradient before the reduction
  std::uint32_t k_reduced = 128;        // folded sketch of the gradient after it, for the linear check
  std::uint32_t max_fingerprints = 48;  // batch fingerprints kept per step; the rest is only counted
  std::uint64_t seed = 0;               // of the sketch

  bool operator==(const RecordLayout&) const = default;
};

// Scalars of one digest, with its sketch beside them. `observed` is false when the host showed no gradient.
struct GradientRecord {
  bool observed = false;
  std::uint64_t count = 0;
  double sum_squares = 0;
  double max_abs = 0;
  std::uint64_t nonfinite = 0;
  std::uint64_t hash = 0;
  std::vector<float> sketch;  // layout.k or layout.k_reduced bins; empty on steps without a sketch
};

struct StateHash {
  bool observed = false;
  std::uint64_t hash = 0;
};

// What the rank's data sampler says of itself. Ranks that draw from one data set must agree on all but `rank`.
struct SamplerFacts {
  bool observed = false;
  bool shuffle = false;
  std::uint32_t rank = 0;      // which shard this rank takes
  std::uint32_t replicas = 0;  // of how many
  std::uint64_t seed = 0;
  std::uint64_t epoch = 0;
  std::uint64_t dataset_size = 0;  // samples of the whole data set; 0: not known

  bool operator==(const SamplerFacts&) const = default;
};

// What the host says of itself, once; without it the detectors assume the weaker case.
struct HostFacts {
  bool forward_draws = false;  // the forward pass draws random numbers (dropout, noise): each rank needs its own stream
  bool sample_ids = false;     // fingerprints are sample ids, not content: equal content at two places is two ids
  bool token_weighted = false;  // ranks are weighted by their tokens, so unequal token counts bias nothing

  bool operator==(const HostFacts&) const = default;
};

// What Lockstep itself cost this rank in this step.
struct RecordTimings {
  std::uint64_t step_ns = 0;    // begin_step to end_step
  std::uint64_t digest_ns = 0;  // in on_gradient, on_reduced and on_state
  std::uint64_t other_ns = 0;   // everything else on the training thread
};

struct Record {
  std::uint32_t rank = 0;
  std::uint32_t world = 1;
  std::uint64_t step = 0;

  // One entry per on_loss call (micro-batch): their sum and number give the rank's mean loss; the token-weighted sum
  // gives the loss that a mean over all tokens would have had.
  double loss_sum = 0;
  std::uint32_t loss_count = 0;
  std::uint32_t loss_nonfinite = 0;  // losses that were NaN or infinite: counted, left out of the sums
  double token_loss_sum = 0;         // sum of loss x tokens over the micro-batches that gave tokens
  std::uint64_t tokens = 0;

  GradientRecord gradient;            // before the reduction
  GradientRecord reduced;             // at the optimizer step
  double direction_sum_squares = -1;  // |sum over ranks of g_i/n_i|^2 where the host computed it, else negative

  std::array<StateHash, kStateChannels> state;
  std::vector<std::uint64_t> fingerprints;  // at most layout.max_fingerprints
  std::uint64_t fingerprint_count = 0;      // of all samples of the step
  SamplerFacts sampler;
  HostFacts host;
  double update_rms = -1;  // largest RMS over tensors of the optimizer's coming update, where the host gave it
  RecordTimings timings;
  std::uint64_t drops = 0;  // records that this rank had to drop so far
};

// Packed size of a record of this layout, with or without the gradient's sketch.
LOCKSTEP_API std::size_t packed_size(const RecordLayout& layout, bool with_sketch = true) noexcept;

// Checks that the dimensions are powers of two in range and fold into each other; names the field that does not.
LOCKSTEP_API Status validate(const RecordLayout& layout);

// The packed record; short when it has no gradient sketch. Refuses a record that does not fit the layout.
LOCKSTEP_API Result<std::vector<std::byte>> pack(const Record& record, const RecordLayout& layout);

// Reads one record. `rank` is the sender as the transport knows it; the message of a refusal names it.
LOCKSTEP_API Result<Record> unpack(std::span<const std::byte> bytes, const RecordLayout& layout, std::uint32_t rank);

}  // namespace lockstep
