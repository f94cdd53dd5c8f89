#include "stats/stats_bench.h"

#include <time.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>

#include "lockstep/stats.h"

namespace lockstep::stats {
namespace {

constexpr double kCosine = 0.2;

// Numbers of mean 0 and variance 1; only the second moments of a sketch matter here, so uniform ones will do.
class Noise {
 public:
  explicit Noise(std::uint32_t seed) : engine_(seed) {}
  float next() {
    constexpr float kSpan = 3.4641016F;  // sqrt(12)
    return (static_cast<float>(engine_() - engine_.min()) / 2147483646.0F - 0.5F) * kSpan;
  }

 private:
  std::minstd_rand engine_;
};

// Sketches of unit gradients with mean pairwise cosine kCosine, and the reduced gradient that belongs to them.
Step make_step(std::uint32_t workers, const RecordLayout& layout) {
  Noise noise(1);
  std::vector<float> common(layout.k);
  for (float& bin : common) bin = noise.next();
  const float shared = static_cast<float>(std::sqrt(kCosine / layout.k));
  const float own = static_cast<float>(std::sqrt((1 - kCosine) / layout.k));

  Step step;
  step.world = workers;
  step.records.resize(workers);
  std::vector<double> folded(layout.k_reduced, 0.0);
  for (std::uint32_t rank = 0; rank < workers; ++rank) {
    Record& record = step.records[rank];
    record.rank = rank;
    record.world = workers;
    record.loss_sum = 2;
    record.loss_count = 1;
    record.gradient.observed = record.reduced.observed = true;
    record.gradient.count = record.reduced.count = 1000000;
    record.gradient.sum_squares = 1;
    record.reduced.sum_squares = kCosine + (1 - kCosine) / workers;
    record.gradient.sketch.resize(layout.k);
    for (std::uint32_t b = 0; b < layout.k; ++b) {
      record.gradient.sketch[b] = shared * common[b] + own * noise.next();
      folded[b % layout.k_reduced] += record.gradient.sketch[b];
    }
  }
  const std::vector<float> reduced = [&] {
    std::vector<float> mean(layout.k_reduced);
    std::transform(folded.begin(), folded.end(), mean.begin(), [&](double bin) { return float(bin / workers); });
    return mean;
  }();
  for (Record& record : step.records) record.reduced.sketch = reduced;
  return step;
}

// Processor time of this thread: large steps outlast a time slice, and a wall clock would count the neighbours' slices
// in them but not in the small ones, which looks like growth.
double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Fastest of the repetitions. Negative when a result is wrong.
double fastest_ms(const Step& step, double seconds) {
  StatsEngine engine;
  double fastest = std::numeric_limits<double>::infinity();
  double spent = 0;
  for (int repetition = 0; repetition < 3 || spent < seconds; ++repetition) {
    const double begin = thread_seconds();
    const StepStats stats = engine.update(step);
    const double took = thread_seconds() - begin;
    if (!stats.cosine_mean || !stats.cosine_pooled || !stats.reduction_gap || *stats.reduction_gap > 1e-5) return -1;
    if (std::abs(*stats.cosine_mean - kCosine) > 6 * *stats.cosine_mean_error) return -1;
    fastest = std::min(fastest, took);
    spent += took;
  }
  return fastest * 1e3;
}

}  // namespace

Result<std::vector<base::BenchRow>> run_stats_bench(const StatsBenchOptions& options) {
  const RecordLayout layout;
  std::vector<base::BenchRow> rows;
  std::vector<double> times;
  for (const std::uint32_t workers : options.workers) {
    const double ms = fastest_ms(make_step(workers, layout), options.seconds);
    if (ms < 0) {
      return Status(StatusCode::kInternal, "stats bench: the step of " + std::to_string(workers) +
                                               " workers gave a mean cosine outside its error bar, so its time says "
                                               "nothing; run the stats tests");
    }
    times.push_back(ms);
    rows.push_back({"stats.step.n" + std::to_string(workers), ms, "ms", false, std::nullopt});
  }
  if (times.size() < 2) return rows;
  const std::size_t last = times.size() - 1;
  const double workers_ratio = static_cast<double>(options.workers[last]) / options.workers[last - 1];
  const double time_ratio = times[last] / times[last - 1];
  rows.push_back({"stats.growth.linearity", time_ratio / workers_ratio, "ratio", false, 1.5});
  rows.push_back({"stats.growth.exponent", std::log(time_ratio) / std::log(workers_ratio), "", false, 1.15});
  return rows;
}

}  // namespace lockstep::stats
