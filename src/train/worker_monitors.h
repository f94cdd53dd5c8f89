// The monitors of the workers in this process, attached as any host would attach them: through the public API only.
//
// What the workers of one process share (the reduced gradient, weights, optimizer) is read once and given to all of
// them. Without monitors every call does nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "lockstep/monitor.h"
#include "lockstep/status.h"
#include "train/engine.h"
#include "train/trainer.h"

namespace lockstep::train {

class WorkerMonitors {
 public:
  // None when watching is off.
  static Result<WorkerMonitors> make(const WatchOptions& options, Engine& engine,
                                     const std::vector<std::shared_ptr<Observer>>& observers);

  // The monitor of local worker `worker`, or null.
  Monitor* worker(std::uint32_t worker) noexcept { return monitors_.empty() ? nullptr : monitors_[worker].get(); }

  // Gradient as the optimizer will use it, the same for all.
  void on_reduced(std::uint64_t step, std::span<const Segment> segments) noexcept;
  // Sum over all ranks of g/|g|, the same for all.
  void on_direction_sum(std::span<const Segment> segments) noexcept;
  bool wants_state() const noexcept;
  void on_state(StateChannel channel, std::uint64_t hash) noexcept;
  void end_step() noexcept;

  // Waits for what is under way, then lets go of the transports: before the engine closes.
  void finish() noexcept;
  Health health() const;  // of the first local worker's monitor

 private:
  bool watching() const noexcept;
  bool sketch_due(std::uint64_t step) const noexcept;
  WatchOptions options_;
  std::vector<std::unique_ptr<Monitor>> monitors_;
  std::optional<DigestAccumulator> sketched_, plain_;  // where several monitors share a digest
};

}  // namespace lockstep::train
