// The metrics of one step: what the workers' losses and gradients looked like before the reduction hid them.
//
// Formulas in docs/metrics.md. A metric that the data cannot support (one worker, zero or non-finite gradients, nothing
// observed) is std::nullopt, "no verdict": never zero.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "lockstep/export.h"
#include "lockstep/record.h"
#include "lockstep/status.h"

namespace lockstep {

using Metric = std::optional<double>;

// The records of one step that arrived. Ranks are unique; missing ones are simply absent.
struct Step {
  std::uint64_t step = 0;
  std::uint32_t world = 1;
  std::vector<Record> records;  // in rank order
  std::vector<std::uint32_t> missing;
};

struct StatsOptions {
  bool cosine_matrix = false;  // N x N, for N <= max_matrix_workers
  std::uint32_t max_matrix_workers = 64;
  double noise_smoothing = 0.9;  // weight of the past in the smoothed noise scale
};

// One worker's part in a step.
struct RankStats {
  std::uint32_t rank = 0;
  Metric loss;           // mean over its micro-batches
  Metric norm;           // |g_i|
  Metric leave_one_out;  // cos(g_i, mean of the others), from sketches
  Metric reduction_gap;  // |sketch(G as this rank holds it) - mean sketch(g_i)| / |mean sketch(g_i)|, scale-free
};

struct StepStats {
  std::uint64_t step = 0;
  std::uint32_t workers = 0;  // whose records arrived
  std::uint32_t missing = 0;

  // The three of the paper, population form.
  Metric loss_mean, loss_std, loss_range;
  Metric token_loss;  // mean over all tokens of all workers
  Metric norm_mean, norm_std, norm_cv;
  Metric cosine_mean;        // mean pairwise cosine: exact where the host gave the direction sum, else from sketches
  Metric cosine_mean_error;  // one standard deviation of the sketch estimate; 0 when exact
  bool cosine_exact = false;

  Metric cosine_pooled;         // exact from scalars: needs the reduced gradient's norm
  Metric cosine_pooled_sketch;  // the same with |G|^2 taken from the mean sketch; there when `reduced` is not
  Metric reduced_norm;          // |G| as rank 0 holds it
  Metric mean_norm;             // |mean of g_i|, from the mean sketch
  Metric noise_ratio;           // B/b = 1/c - 1 of this step alone
  Metric noise_ratio_smooth;    // numerator and denominator smoothed separately over steps
  Metric reduction_gap;         // the largest of the ranks'
  Metric reduction_scale;       // common factor between G and mean g_i (clipping, unscaling), from sketches

  std::vector<RankStats> ranks;
  std::vector<float> cosine_matrix;  // workers x workers, row-major, order of `ranks`; empty when off or not possible
};

// Keeps what must be smoothed over steps, and whether a sketched step has shown G to be a multiple of the mean gradient
// (clipping): from then on |G| proves nothing on steps without sketches. Everything else of a step depends on its
// records alone. One thread at a time.
class LOCKSTEP_API StatsEngine {
 public:
  explicit StatsEngine(const StatsOptions& options = {});
  ~StatsEngine();
  StatsEngine(StatsEngine&&) noexcept;
  StatsEngine& operator=(StatsEngine&&) noexcept;

  StepStats update(const Step& step);
  void set_options(const StatsOptions& options);

 private:
  struct State;
  State* state_;
};

}  // namespace lockstep
