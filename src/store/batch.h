// What waits to be written, and the one transaction that writes it.
//
// Steps queue up; everything else is "newest wins" by its key, so a batch stays small however long the disk refuses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/finding.h"
#include "lockstep/monitor.h"
#include "lockstep/stats.h"
#include "store/run_info.h"
#include "store/sqlite.h"
#include "store/step_metrics.h"

namespace lockstep::store {

struct StepRow {
  std::int64_t step = 0;
  std::optional<std::int64_t> time_ms;
  StepStats stats;  // its scalars only
  LossBand band;
  std::uint64_t tokens = 0;
  Metric step_ns, digest_ns, other_ns;  // means over the ranks
  std::vector<std::byte> series, detail;

  std::size_t bytes() const { return sizeof(StepRow) + series.size() + detail.size(); }
};

// `time_ms`: empty when the steps carry no time of their own (imported logs).
StepRow make_row(const Step& step, const StepStats& stats, std::optional<std::int64_t> time_ms);

struct MatrixRow {
  std::int64_t step = 0;
  std::int64_t ordinal = 0;  // counts the matrices of the run, kept or not
  std::vector<std::uint32_t> ranks;
  std::vector<float> cosines;
};

// Matrices are thinned by halving: those whose ordinal is a multiple of the stride stay, and the newest.
std::int64_t matrix_stride(std::int64_t ordinal, std::int64_t max_matrices);

struct Batch {
  std::vector<StepRow> steps;
  std::map<std::int64_t, MatrixRow> matrices;  // by ordinal
  std::map<std::uint64_t, std::vector<Expectation>> expectations;
  std::map<std::uint32_t, std::string> configs;
  std::map<std::string, Finding> findings;
  std::map<std::uint32_t, Health> health;
  std::map<std::string, std::string> documents;

  bool empty() const;
  void add(MatrixRow matrix, std::int64_t max_matrices);
  // Moves all of `newer` behind what is here.
  void append(Batch&& newer, std::int64_t max_matrices);
};

// Prepared statements of the writing connection.
class BatchWriter {
 public:
  static Result<BatchWriter> create(Database& database);

  // All or nothing.
  Status write(Database& database, const Batch& batch, std::int64_t max_matrices);

 private:
  Status write_rows(const Batch& batch, std::int64_t max_matrices);
  Status write_step(const StepRow& row);
  Status write_matrices(const Batch& batch, std::int64_t max_matrices);
  Status write_finding(const Finding& finding, std::int64_t time);
  Status write_health(std::uint32_t rank, const Health& health, std::int64_t time);

  Statement step_, series_, detail_, expectation_, matrix_, thin_, config_, finding_, health_, document_;
};

}  // namespace lockstep::store
