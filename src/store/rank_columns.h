// Every rank's scalars of one step, packed by column into one blob: a row per rank and step would cost more bytes for
// SQLite's keys and headers than for the numbers. docs/run_store.md has the bytes. A column whose values are all absent
// takes no space.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "lockstep/record.h"
#include "lockstep/stats.h"
#include "lockstep/status.h"

namespace lockstep::store {

// What the store keeps of one rank in one step.
struct RankScalars {
  std::uint32_t rank = 0;

  // Drawn by the report.
  Metric loss, norm;
  Metric leave_one_out, reduction_gap;  // kept as float
  std::uint32_t nonfinite = 0;          // losses and gradient elements that were NaN or infinite; saturates

  // Detail: for diagnosis after the fact and for export.
  Metric max_abs, reduced_norm;
  std::uint32_t loss_count = 0;
  std::uint32_t tokens = 0;
  Metric token_loss;             // mean over its tokens
  std::uint32_t samples = 0;     // of the batch
  std::uint64_t batch_hash = 0;  // of the batch's fingerprints in any order; 0 when none were given
  std::uint8_t observed = 0;     // bits: see below
  std::uint64_t gradient_hash = 0, reduced_hash = 0;
  std::array<std::uint64_t, kStateChannels> state{};
  Metric step_ns, digest_ns, other_ns;  // kept as float
  std::uint32_t drops = 0;

  static constexpr std::uint8_t kGradient = 1, kReduced = 2;
  static constexpr std::uint8_t state_bit(std::size_t channel) { return static_cast<std::uint8_t>(4U << channel); }
};

RankScalars to_scalars(const Record& record, const RankStats* stats);

// Sets of columns. The two blobs of a step hold kSeriesColumns and kDetailColumns.
using ColumnMask = std::uint32_t;
extern const ColumnMask kSeriesColumns;
extern const ColumnMask kDetailColumns;
extern const ColumnMask kTotalsColumns;  // of kDetailColumns: what RunReader::totals() adds up

// `ranks` in rank order.
std::vector<std::byte> encode(std::span<const RankScalars> ranks, ColumnMask columns);

// Fills the columns that the blob holds and `wanted` names; the other members keep what they had. `ranks` must be empty
// or hold the ranks of the blob (as another blob of that step gave them).
Status decode(std::span<const std::byte> blob, ColumnMask wanted, std::vector<RankScalars>& ranks);

}  // namespace lockstep::store
