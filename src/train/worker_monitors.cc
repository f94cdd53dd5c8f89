#include "train/worker_monitors.h"

#include <algorithm>
#include <chrono>

namespace lockstep::train {
namespace {

constexpr std::chrono::milliseconds kPatience{60'000};  // of a run that waits for its analysis, and at the end of any

}  // namespace

Result<WorkerMonitors> WorkerMonitors::make(const WatchOptions& options, Engine& engine,
                                            const std::vector<std::shared_ptr<Observer>>& observers) {
  WorkerMonitors out;
  out.options_ = options;
  if (!options.enabled) return out;
  MonitorOptions& settings = out.options_.monitor;
  if (options.wait_for_analysis) settings.deadline = std::max(settings.deadline, kPatience);
  for (std::uint32_t worker = 0; worker < engine.local_ranks(); ++worker) {
    const std::uint32_t rank = engine.first_rank() + worker;
    auto transport = engine.make_transport(rank);
    if (!transport) return transport.error();
    auto monitor = Monitor::create(rank, engine.world(), settings, std::move(*transport));
    if (!monitor) return monitor.error();
    if (rank == 0) {
      for (const auto& observer : observers) (*monitor)->add_observer(observer);
    }
    out.monitors_.push_back(std::move(*monitor));
  }
  if (out.monitors_.size() > 1) {
    DigestOptions digest;
    digest.k = std::max(kMinSketchDim, settings.layout.k_reduced);
    digest.seed = settings.layout.seed;
    digest.threads = settings.threads;
    out.sketched_.emplace(digest);
    digest.sketch = false;
    out.plain_.emplace(digest);
  }
  return out;
}

bool WorkerMonitors::watching() const noexcept {
  return std::any_of(monitors_.begin(), monitors_.end(), [](const auto& monitor) { return monitor->watching(); });
}

// As the monitors themselves decide it; a sketch that they did not ask for would only cost time.
bool WorkerMonitors::sketch_due(std::uint64_t step) const noexcept {
  return step / options_.monitor.interval % options_.monitor.sketch_interval == 0;
}

void WorkerMonitors::on_reduced(std::uint64_t step, std::span<const Segment> segments) noexcept {
  if (!watching()) return;
  if (monitors_.size() == 1) {
    for (const Segment& segment : segments) monitors_[0]->on_reduced(segment);
    return;
  }
  DigestAccumulator& accumulator = sketch_due(step) ? *sketched_ : *plain_;
  accumulator.reset();
  for (const Segment& segment : segments) accumulator.add(segment);
  const Digest& digest = accumulator.result();
  for (const auto& monitor : monitors_) monitor->on_reduced(digest);
}

void WorkerMonitors::on_direction_sum(std::span<const Segment> segments) noexcept {
  // Only rank 0's is read; the others' would be the same number again.
  if (monitors_.empty() || !monitors_.front()->wants_direction_sum()) return;
  for (const Segment& segment : segments) monitors_.front()->on_direction_sum(segment);
}

bool WorkerMonitors::wants_state() const noexcept {
  return std::any_of(monitors_.begin(), monitors_.end(), [](const auto& monitor) { return monitor->wants_state(); });
}

void WorkerMonitors::on_state(StateChannel channel, std::uint64_t hash) noexcept {
  for (const auto& monitor : monitors_) monitor->on_state(channel, hash);
}

void WorkerMonitors::end_step() noexcept {
  for (const auto& monitor : monitors_) monitor->end_step();
  if (!options_.wait_for_analysis) return;
  // Rank 0 last: its analysis needs the others' records.
  for (auto monitor = monitors_.rbegin(); monitor != monitors_.rend(); ++monitor) (void)(*monitor)->flush(kPatience);
}

void WorkerMonitors::finish() noexcept {
  for (auto monitor = monitors_.rbegin(); monitor != monitors_.rend(); ++monitor) (void)(*monitor)->flush(kPatience);
  for (auto monitor = monitors_.rbegin(); monitor != monitors_.rend(); ++monitor) (void)(*monitor)->close(kPatience);
}

Health WorkerMonitors::health() const {
  return monitors_.empty() ? Health{} : monitors_.front()->health();
}

}  // namespace lockstep::train
