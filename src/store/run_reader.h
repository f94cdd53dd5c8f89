// Reads a run, also while its writer is live, and writes nothing to it (but lets SQLite undo what a killed writer left
// half done).
//
// Every query is one short read, so that it does not hold up the writer's checkpoints; snapshot() makes several of them
// see one state. Step ranges are inclusive. One thread at a time; open one reader per thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lockstep/finding.h"
#include "lockstep/monitor.h"
#include "lockstep/status.h"
#include "store/rank_columns.h"
#include "store/run_info.h"
#include "store/schema.h"
#include "store/series.h"
#include "store/sqlite.h"
#include "store/step_metrics.h"

namespace lockstep::store {

struct RunSummary {
  RunInfo info;
  std::int64_t schema_version = 0;
  std::optional<std::int64_t> ended_ms;  // empty: still written, or killed
  bool live = false;                     // a writer holds it now
  std::uint64_t steps = 0;
  std::optional<std::uint64_t> first_step, last_step;
  std::optional<std::int64_t> updated_ms;  // time of the newest step
  std::uint64_t findings = 0;
  std::uint64_t bytes = 0;  // on disk
};

struct StepRange {
  std::uint64_t from = 0;
  std::uint64_t to = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
};

struct StoredStep {
  StepStats stats;  // scalars; `ranks` and `cosine_matrix` are empty
  std::optional<std::int64_t> time_ms;
  std::uint64_t tokens = 0;
  Metric step_ns, digest_ns, other_ns;
  LossBand band;
  std::vector<RankScalars> ranks;  // as asked for
};

struct CosineMatrix {
  std::uint64_t step = 0;
  std::vector<std::uint32_t> ranks;
  std::vector<float> cosines;  // ranks x ranks, row-major
};

struct MatrixEntry {
  std::uint64_t step = 0;
  std::uint32_t workers = 0;
};

struct RankTimings {
  std::uint32_t rank = 0;
  Metric step_ns, digest_ns, other_ns;  // means
};

// Over all ranks and steps.
struct RunTotals {
  Metric step_ns, digest_ns, other_ns;  // means
  std::vector<RankTimings> ranks;
  std::uint8_t observed = 0;  // what some rank showed in some step: bits of RankScalars::observed
  bool losses = false, batches = false;
};

class RunReader {
 public:
  static Result<RunReader> open(const std::filesystem::path& folder, const std::string& vfs = {});

  const std::filesystem::path& folder() const { return folder_; }
  Result<RunSummary> summary();
  // Changes whenever a writer committed something since this reader was opened.
  Result<std::int64_t> change_counter();

  enum class Ranks { kNone, kSeries, kAll };
  // Calls `visit` per stored step in order, until it returns false.
  Status for_each_step(const StepRange& range, Ranks ranks, const std::function<bool(const StoredStep&)>& visit);

  Result<StepSeries> step_series(const StepRange& range, std::size_t points);
  // Of the same buckets; only metrics for which expectations were stored.
  Result<std::vector<ExpectedColumn>> expected_series(const Buckets& buckets);
  Result<RankGrid> rank_grid(const StepRange& range, std::size_t points, std::span<const std::uint32_t> ranks);
  Result<RunTotals> totals();

  Result<std::vector<MatrixEntry>> matrices();
  Result<CosineMatrix> matrix(std::uint64_t step);
  Result<std::vector<Finding>> findings();  // certain ones first, then by first step
  Result<std::map<std::uint32_t, std::string>> configs();
  Result<std::map<std::uint32_t, Health>> health();
  Result<std::optional<std::string>> document(const std::string& name);

  // Until it is destroyed all queries of this reader see the state of its making. Keep it short.
  class Snapshot {
   public:
    explicit Snapshot(RunReader& reader);
    ~Snapshot();
    Snapshot(const Snapshot&) = delete;
    Snapshot& operator=(const Snapshot&) = delete;
    const Status& status() const { return status_; }

   private:
    RunReader& reader_;
    Status status_;
  };

 private:
  Result<FileKind> connect(OpenMode mode, const std::string& vfs);
  Result<Buckets> empty_buckets(const StepRange& range, std::size_t points);

  std::filesystem::path folder_;
  Database database_;
};

}  // namespace lockstep::store
