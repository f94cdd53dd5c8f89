// How long the statistics of one step take, and whether that grows linearly with the number of workers.
#pragma once

#include <cstdint>
#include <vector>

#include "base/bench_row.h"
#include "lockstep/status.h"

namespace lockstep::stats {

struct StatsBenchOptions {
  std::vector<std::uint32_t> workers = {8, 64, 1024, 16384};  // ascending; the last needs 16 KiB of memory per worker
  double seconds = 0.3;                                       // to spend on timing each size, at least three steps
};

// One row per size, then the growth from the last size but one to the last. Refuses to report times of wrong results:
// the workers are made with a known mean cosine, which every timed step must find inside six of its error bars.
Result<std::vector<base::BenchRow>> run_stats_bench(const StatsBenchOptions& options = {});

}  // namespace lockstep::stats
