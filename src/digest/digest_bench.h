// The speed of the digest as ratios to a plain read of the same memory, for `lockstep bench`.
//
// Both sides run alternately in one process, so that a busy machine slows both. Nothing is asserted: the rows are
// reported. What is computed is checked: a benchmark of wrong digests is an error.
#pragma once

#include <cstdint>
#include <vector>

#include "base/bench_row.h"
#include "lockstep/status.h"

namespace lockstep::digests {

struct BenchOptions {
  std::uint64_t bytes = 256ull << 20;
  std::uint32_t rounds = 11;
};

// Ratios digest_{fp32,bf16}_{1t,2t} and hash_only_fp32_1t, and the absolute speeds behind them.
Result<std::vector<base::BenchRow>> run_digest_bench(const BenchOptions& options = {});

}  // namespace lockstep::digests
