// The monitor: what runs inside training.
//
// The training thread calls begin_step, on_*, end_step; these fold into the step's record and return. A thread of the
// monitor's own packs, carries and analyses. Nothing here throws, waits for I/O or changes a gradient. The first
// failure disables the monitor, once, with one log line; health() says so, and training goes on as if it were absent.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lockstep/digest.h"
#include "lockstep/export.h"
#include "lockstep/record.h"
#include "lockstep/stats.h"
#include "lockstep/status.h"
#include "lockstep/transport.h"

namespace lockstep {

struct MonitorOptions {
  RecordLayout layout;
  std::uint32_t threads = 1;                 // of the digest
  std::uint32_t queue_capacity = 8;          // steps that may wait for transport or analysis before records are dropped
  std::chrono::milliseconds deadline{2000};  // for the other ranks' records of a step
  std::function<void(const std::string&)> log;  // where the one line goes; default: standard error
  StatsOptions stats;

  // May change while it runs (Monitor::set); all ranks should set the same.
  std::uint32_t interval = 1;               // watch every n-th step; the others cost nothing
  std::uint32_t sketch_interval = 1;        // sketch every n-th watched step; scalars and hashes come with each
  std::uint32_t exact_cosine_interval = 0;  // ask the host for the direction sum every n-th step; 0: never
  std::uint32_t state_interval = 50;        // ask the host for full state hashes every n-th step; 0: never
};

enum class Setting { kInterval, kSketchInterval, kExactCosineInterval, kStateInterval, kDeadlineMs, kCosineMatrix };

// What the monitor itself is doing. All counts are since creation.
struct Health {
  bool enabled = true;
  Status reason;  // why it was disabled
  std::uint64_t steps_begun = 0;
  std::uint64_t steps_sent = 0;        // records handed to the transport
  std::uint64_t steps_analysed = 0;    // on rank 0
  std::uint64_t drops_queue = 0;       // own records dropped because the queue was full
  std::uint64_t drops_late = 0;        // peers' records that came after their step was closed
  std::uint64_t missing_records = 0;   // peers' records that never came in time
  std::uint64_t rejected_records = 0;  // that did not unpack
  std::uint64_t rejected_calls = 0;    // out-of-order or malformed calls, each ignored
  std::uint64_t observer_failures = 0;
  std::uint64_t bytes_sent = 0;
  std::string last_problem;  // newest of the above in words; empty when there was none
};

// Sees every analysed step, on rank 0, on the monitor's thread. An exception disables the observer, not the monitor.
class LOCKSTEP_API Observer {
 public:
  virtual ~Observer() = default;
  virtual void on_step(const Step& step, const StepStats& stats) = 0;
};

class LOCKSTEP_API Monitor {
 public:
  // With a null transport nothing is sent: the host carries bytes itself through pack_step and ingest_step.
  static Result<std::unique_ptr<Monitor>> create(std::uint32_t rank, std::uint32_t world, const MonitorOptions& options,
                                                 std::unique_ptr<Transport> transport);
  ~Monitor();  // closes with a short deadline; safe in mid-step
  Monitor(const Monitor&) = delete;
  Monitor& operator=(const Monitor&) = delete;

  // The training thread's calls. Each is noexcept and cheap; out of order they are counted and ignored.
  void begin_step(std::uint64_t step) noexcept;
  void on_gradient(const Segment& segment) noexcept;  // before the reduction
  void on_reduced(const Segment& segment) noexcept;   // as the optimizer will use it
  // The same for digests that were made elsewhere (on a device, or once for several monitors of one process), with the
  // layout's seed. A sketch must have the layout's k or a multiple of it; without one the record has none either.
  void on_gradient(const Digest& digest) noexcept;
  void on_reduced(const Digest& digest) noexcept;
  void on_direction_sum(const Segment& segment) noexcept;  // of sum over ranks of g_i/n_i, when wants_direction_sum()
  void on_batch(std::span<const std::uint64_t> fingerprints) noexcept;  // one per sample; adds up over micro-batches
  void on_loss(double loss, std::uint64_t tokens = 0) noexcept;         // one per micro-batch
  void on_state(StateChannel channel, std::uint64_t hash) noexcept;
  void on_state(StateChannel channel, const Segment& segment) noexcept;  // adds the segment's content hash
  void end_step() noexcept;

  // Questions the host may ask inside a step.
  bool watching() const noexcept;  // false: the on_* calls of this step do nothing
  bool wants_direction_sum() const noexcept;
  bool wants_state() const noexcept;
  double gradient_norm() const noexcept;  // |g_i| of what on_gradient has seen in this step

  // Analysis side. Observers are added before the first step or between steps.
  void add_observer(std::shared_ptr<Observer> observer);
  Status set(Setting setting, std::uint64_t value);  // takes effect at the next begin_step
  Health health() const;
  StepStats latest() const;  // newest analysed step; on ranks other than 0 the newest that rank 0 published (scalars)

  // For hosts that carry bytes themselves. pack_step: the oldest ended step that was not taken yet, kUnavailable when
  // there is none. ingest_step: all ranks' packed records of one step, on the rank that analyses.
  Result<std::vector<std::byte>> pack_step();
  Status ingest_step(std::span<const std::span<const std::byte>> messages);

  // Waits until everything ended so far is analysed (or sent, on other ranks), or the time is up.
  Status flush(std::chrono::milliseconds timeout);
  Status close(std::chrono::milliseconds timeout);

 private:
  struct Impl;
  explicit Monitor(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep
