// Writes a run to disk while training goes on.
//
// A run is a folder that holds run.sqlite (docs/run_store.md). Calls fold into a queue in memory and return; a thread
// of the writer's own commits it in batches, so that a process killed at any moment leaves a clean file that lacks at
// most the last second. Nothing here throws or waits for the disk: a disk that refuses is reported by health() and
// retried, and when the queue is full steps are dropped and counted.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "lockstep/finding.h"
#include "lockstep/monitor.h"
#include "lockstep/status.h"
#include "store/run_info.h"

namespace lockstep::store {

struct RunWriterOptions {
  std::chrono::milliseconds flush_interval{250};   // oldest unwritten step; 500 at most, so that a kill costs < 1 s
  std::chrono::milliseconds retry_interval{1000};  // after the disk refused
  std::size_t queue_bytes = 64U << 20;             // of steps that wait for the disk
  bool wait_when_full = false;                     // offline use (import): wait for room rather than drop
  bool stamp_time = true;                          // false: steps carry no time (imported logs)
  std::uint32_t max_matrices = 200;
  std::string vfs;                              // of SQLite; tests break the disk through it
  std::function<void(const std::string&)> log;  // default: standard error
};

struct WriterHealth {
  Status status;  // of the last attempt to write
  std::uint64_t steps_accepted = 0;
  std::uint64_t steps_written = 0;  // committed: a kill cannot take them back
  std::uint64_t steps_dropped = 0;  // the queue was full, or the run had failed for good
  std::uint64_t failures = 0;       // attempts that the disk refused
  std::optional<std::uint64_t> last_written_step;
};

// Calls may come from any thread.
class RunWriter : public Observer {
 public:
  // A new run. The folder is made; one that holds a run already is refused.
  static Result<std::shared_ptr<RunWriter>> create(const std::filesystem::path& folder, const RunInfo& info,
                                                   const RunWriterOptions& options = {});
  // An existing run, to append; older versions are migrated. A step that comes again replaces the older one.
  static Result<std::shared_ptr<RunWriter>> open(const std::filesystem::path& folder,
                                                 const RunWriterOptions& options = {});
  ~RunWriter() override;  // close() with a short deadline

  void on_step(const Step& step, const StepStats& stats) noexcept override;
  void put_expectations(std::uint64_t step, std::vector<Expectation> expectations) noexcept;
  void put_config(std::uint32_t rank, std::string json) noexcept;
  void put_finding(Finding finding) noexcept;  // replaces the one of the same id
  void put_health(std::uint32_t rank, Health health) noexcept;
  void put_document(std::string name, std::string json) noexcept;  // replaces the one of the same name

  Status status() const { return health().status; }
  WriterHealth health() const;

  // Waits until all that was given so far is committed, the disk refuses, or the time is up.
  Status flush(std::chrono::milliseconds timeout);
  // Flushes, marks the run as ended, and leaves a single plain file. Later calls are ignored. Idempotent.
  Status close(std::chrono::milliseconds timeout);

 private:
  struct Impl;
  explicit RunWriter(std::shared_ptr<Impl> impl);
  static Result<std::shared_ptr<RunWriter>> start(const std::filesystem::path& folder, const RunInfo* info,
                                                  const RunWriterOptions& options);
  std::shared_ptr<Impl> impl_;  // shared with the thread, so that a hanging disk cannot hang close()
};

}  // namespace lockstep::store
