// The groups of `lockstep bench`. Each measures ratios within one run, checks its results, and asserts nothing on time.
#pragma once

#include <vector>

#include "base/bench_row.h"
#include "lockstep/status.h"

namespace lockstep::app {

// Bytes of Lockstep's records against gathering full gradients.
Result<std::vector<base::BenchRow>> bench_exchange();

// The digest against what one would write with libtorch: norm, isfinite, max and a projection. Only with libtorch.
Result<std::vector<base::BenchRow>> bench_torch_digest();

}  // namespace lockstep::app
