#include "lockstep/monitor.h"

#include <fmt/format.h>

#include <cstring>
#include <limits>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "capi/error.h"
#include "capi/segment.h"
#include "monitor/publication.h"

struct lockstep_monitor {
  std::unique_ptr<lockstep::Monitor> monitor;
};

struct lockstep_group {
  std::mutex mutex;
  std::vector<std::unique_ptr<lockstep::Transport>> transports;  // taken one by one as monitors are made
};

namespace lockstep::capi {
namespace {

lockstep_step_stats to_c(const StepStats& stats) {
  const auto number = [](const Metric& metric) { return metric.value_or(std::numeric_limits<double>::quiet_NaN()); };
  lockstep_step_stats out{};
  out.size = sizeof(out);
  out.step = stats.step;
  out.workers = stats.workers;
  out.missing = stats.missing;
  out.loss_mean = number(stats.loss_mean);
  out.loss_std = number(stats.loss_std);
  out.loss_range = number(stats.loss_range);
  out.token_loss = number(stats.token_loss);
  out.norm_mean = number(stats.norm_mean);
  out.norm_std = number(stats.norm_std);
  out.norm_cv = number(stats.norm_cv);
  out.cosine_mean = number(stats.cosine_mean);
  out.cosine_mean_error = number(stats.cosine_mean_error);
  out.cosine_pooled = number(stats.cosine_pooled);
  out.cosine_pooled_sketch = number(stats.cosine_pooled_sketch);
  out.reduced_norm = number(stats.reduced_norm);
  out.mean_norm = number(stats.mean_norm);
  out.noise_ratio = number(stats.noise_ratio);
  out.noise_ratio_smooth = number(stats.noise_ratio_smooth);
  out.reduction_gap = number(stats.reduction_gap);
  out.reduction_scale = number(stats.reduction_scale);
  return out;
}

class CallbackObserver : public Observer {
 public:
  CallbackObserver(lockstep_on_step callback, void* user) : callback_(callback), user_(user) {}
  void on_step(const Step&, const StepStats& stats) override {
    const lockstep_step_stats out = to_c(stats);
    callback_(&out, user_);
  }

 private:
  lockstep_on_step callback_;
  void* user_;
};

MonitorOptions to_options(const lockstep_monitor_options& in) {
  MonitorOptions out;
  out.layout = {in.k, in.k_reduced, in.max_fingerprints, in.seed};
  out.threads = in.threads;
  out.queue_capacity = in.queue_capacity;
  out.deadline = std::chrono::milliseconds(in.deadline_ms);
  out.stats.cosine_matrix = in.cosine_matrix != 0;
  out.interval = in.interval;
  out.sketch_interval = in.sketch_interval;
  out.exact_cosine_interval = in.exact_cosine_interval;
  out.state_interval = in.state_interval;
  if (in.log != nullptr) {
    out.log = [log = in.log, user = in.log_user](const std::string& line) { log(line.c_str(), user); };
  }
  return out;
}

// Room for a record, the headers around it and what rank 0 publishes.
constexpr std::size_t kSlotOverhead = monitor::kMaxPublicationBytes + 256;

// Null when the host carries bytes itself.
Result<std::unique_ptr<Transport>> make_transport(const lockstep_monitor_options& in, const MonitorOptions& options) {
  if (in.all_gather != nullptr && in.group != nullptr) {
    return Status(StatusCode::kInvalidArgument, "both all_gather and group are set: records can travel only one way");
  }
  if (in.all_gather != nullptr) {
    return make_callback_transport(
        {in.rank, in.world, packed_size(options.layout) + kSlotOverhead},
        [gather = in.all_gather, user = in.all_gather_user](const void* send, std::size_t bytes, void* receive) {
          return gather(send, bytes, receive, user);
        });
  }
  if (in.group == nullptr) return std::unique_ptr<Transport>();
  const std::lock_guard lock(in.group->mutex);
  auto& transports = in.group->transports;
  if (in.world != transports.size() || in.rank >= transports.size()) {
    return Status(StatusCode::kInvalidArgument,
                  fmt::format("rank {} of {} in a group of {}", in.rank, in.world, transports.size()));
  }
  if (transports[in.rank] == nullptr) {
    return Status(StatusCode::kFailedPrecondition,
                  fmt::format("rank {} of this group has its monitor already", in.rank));
  }
  return std::move(transports[in.rank]);
}

Status create(const lockstep_monitor_options* c_options, lockstep_monitor** out) {
  if (out == nullptr) return {StatusCode::kInvalidArgument, "out is NULL"};
  *out = nullptr;
  lockstep_monitor_options in;
  lockstep_monitor_options_init(&in);
  if (Status status = read_sized(c_options, in, "options"); !status) return status;
  const MonitorOptions options = to_options(in);
  if (Status status = validate(options.layout); !status) return status;
  Result<std::unique_ptr<Transport>> transport = make_transport(in, options);
  if (!transport) return transport.error();
  Result<std::unique_ptr<Monitor>> monitor = Monitor::create(in.rank, in.world, options, std::move(*transport));
  if (!monitor) return monitor.error();
  if (in.on_step != nullptr) {
    (*monitor)->add_observer(std::make_shared<CallbackObserver>(in.on_step, in.on_step_user));
  }
  *out = new lockstep_monitor{std::move(*monitor)};
  return Status::ok();
}

Status no_monitor() {
  return {StatusCode::kInvalidArgument, "monitor is NULL"};
}

// The newest ended step into the caller's buffer.
Status pack_step(lockstep_monitor* handle, void* buffer, std::size_t capacity, std::size_t* written) {
  if (handle == nullptr) return no_monitor();
  if (written == nullptr || (buffer == nullptr && capacity > 0)) {
    return {StatusCode::kInvalidArgument, "buffer or written is NULL"};
  }
  Result<std::vector<std::byte>> bytes = handle->monitor->pack_step();
  if (!bytes) return bytes.error();
  *written = bytes->size();
  if (bytes->size() > capacity) {
    return {StatusCode::kInvalidArgument,
            fmt::format("the record has {} bytes, the buffer {}: lockstep_packed_size tells what is needed",
                        bytes->size(), capacity)};
  }
  std::memcpy(buffer, bytes->data(), bytes->size());
  return Status::ok();
}

Status ingest_step(lockstep_monitor* handle, const void* const* records, const std::size_t* sizes, std::size_t count) {
  if (handle == nullptr) return no_monitor();
  if (count > 0 && (records == nullptr || sizes == nullptr)) {
    return {StatusCode::kInvalidArgument, "records or sizes is NULL"};
  }
  std::vector<std::span<const std::byte>> messages;
  messages.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    if (records[i] == nullptr && sizes[i] > 0) {
      return {StatusCode::kInvalidArgument, fmt::format("the record of rank {} is NULL with size {}", i, sizes[i])};
    }
    messages.emplace_back(static_cast<const std::byte*>(records[i]), sizes[i]);
  }
  return handle->monitor->ingest_step(messages);
}

}  // namespace
}  // namespace lockstep::capi

using lockstep::capi::guarded;
using lockstep::capi::to_segment;

void lockstep_monitor_options_init(lockstep_monitor_options* options) {
  if (options == nullptr) return;
  const lockstep::MonitorOptions defaults;
  lockstep_monitor_options out{};
  out.size = sizeof(out);
  out.world = 1;
  out.k = defaults.layout.k;
  out.k_reduced = defaults.layout.k_reduced;
  out.max_fingerprints = defaults.layout.max_fingerprints;
  out.threads = defaults.threads;
  out.seed = defaults.layout.seed;
  out.queue_capacity = defaults.queue_capacity;
  out.deadline_ms = static_cast<uint32_t>(defaults.deadline.count());
  out.interval = defaults.interval;
  out.sketch_interval = defaults.sketch_interval;
  out.exact_cosine_interval = defaults.exact_cosine_interval;
  out.state_interval = defaults.state_interval;
  *options = out;
}

lockstep_status lockstep_monitor_create(const lockstep_monitor_options* options, lockstep_monitor** out) {
  return guarded([&] { return lockstep::capi::create(options, out); });
}

void lockstep_monitor_destroy(lockstep_monitor* monitor) {
  delete monitor;
}

lockstep_status lockstep_group_create(uint32_t world, lockstep_group** out) {
  return guarded([&]() -> lockstep::Status {
    if (out == nullptr) return {lockstep::StatusCode::kInvalidArgument, "out is NULL"};
    if (world == 0) return {lockstep::StatusCode::kInvalidArgument, "a group needs at least one rank"};
    auto group = std::make_unique<lockstep_group>();
    group->transports = lockstep::make_in_process_transports(world);
    *out = group.release();
    return {};
  });
}

void lockstep_group_destroy(lockstep_group* group) {
  delete group;
}

void lockstep_begin_step(lockstep_monitor* monitor, uint64_t step) {
  if (monitor != nullptr) monitor->monitor->begin_step(step);
}

void lockstep_on_gradient(lockstep_monitor* monitor, const lockstep_segment* segment) {
  if (monitor != nullptr && segment != nullptr) monitor->monitor->on_gradient(to_segment(*segment));
}

void lockstep_on_reduced(lockstep_monitor* monitor, const lockstep_segment* segment) {
  if (monitor != nullptr && segment != nullptr) monitor->monitor->on_reduced(to_segment(*segment));
}

void lockstep_on_direction_sum(lockstep_monitor* monitor, const lockstep_segment* segment) {
  if (monitor != nullptr && segment != nullptr) monitor->monitor->on_direction_sum(to_segment(*segment));
}

void lockstep_on_batch(lockstep_monitor* monitor, const uint64_t* fingerprints, size_t count) {
  if (monitor != nullptr && (fingerprints != nullptr || count == 0)) monitor->monitor->on_batch({fingerprints, count});
}

void lockstep_on_loss(lockstep_monitor* monitor, double loss, uint64_t tokens) {
  if (monitor != nullptr) monitor->monitor->on_loss(loss, tokens);
}

void lockstep_on_state_hash(lockstep_monitor* monitor, uint32_t channel, uint64_t hash) {
  if (monitor == nullptr) return;
  monitor->monitor->on_state(static_cast<lockstep::StateChannel>(channel <= 0xff ? channel : 0xff), hash);
}

void lockstep_on_state(lockstep_monitor* monitor, uint32_t channel, const lockstep_segment* segment) {
  if (monitor == nullptr || segment == nullptr) return;
  monitor->monitor->on_state(static_cast<lockstep::StateChannel>(channel <= 0xff ? channel : 0xff),
                             to_segment(*segment));
}

void lockstep_end_step(lockstep_monitor* monitor) {
  if (monitor != nullptr) monitor->monitor->end_step();
}

int32_t lockstep_watching(const lockstep_monitor* monitor) {
  return monitor != nullptr && monitor->monitor->watching() ? 1 : 0;
}

int32_t lockstep_wants_direction_sum(const lockstep_monitor* monitor) {
  return monitor != nullptr && monitor->monitor->wants_direction_sum() ? 1 : 0;
}

int32_t lockstep_wants_state(const lockstep_monitor* monitor) {
  return monitor != nullptr && monitor->monitor->wants_state() ? 1 : 0;
}

double lockstep_gradient_norm(const lockstep_monitor* monitor) {
  return monitor != nullptr ? monitor->monitor->gradient_norm() : 0;
}

lockstep_status lockstep_set(lockstep_monitor* monitor, uint32_t setting, uint64_t value) {
  return guarded([&]() -> lockstep::Status {
    if (monitor == nullptr) return lockstep::capi::no_monitor();
    return monitor->monitor->set(static_cast<lockstep::Setting>(setting), value);
  });
}

lockstep_status lockstep_get_health(const lockstep_monitor* monitor, lockstep_health* out) {
  return guarded([&]() -> lockstep::Status {
    if (monitor == nullptr) return lockstep::capi::no_monitor();
    const lockstep::Health health = monitor->monitor->health();
    const lockstep_health result = {
        sizeof(lockstep_health), health.enabled ? 1 : 0, static_cast<int32_t>(health.reason.code()),
        health.steps_begun,      health.steps_sent,      health.steps_analysed,
        health.drops_queue,      health.drops_late,      health.missing_records,
        health.rejected_records, health.rejected_calls,  health.observer_failures,
        health.bytes_sent};
    return lockstep::capi::write_sized(result, out, "out");
  });
}

const char* lockstep_last_problem(const lockstep_monitor* monitor) {
  if (monitor == nullptr) return "";
  try {
    return lockstep::capi::keep(monitor->monitor->health().last_problem);
  } catch (...) {
    return "";
  }
}

lockstep_status lockstep_latest(const lockstep_monitor* monitor, lockstep_step_stats* out) {
  return guarded([&]() -> lockstep::Status {
    if (monitor == nullptr) return lockstep::capi::no_monitor();
    return lockstep::capi::write_sized(lockstep::capi::to_c(monitor->monitor->latest()), out, "out");
  });
}

size_t lockstep_packed_size(const lockstep_monitor_options* options) {
  lockstep_monitor_options in;
  lockstep_monitor_options_init(&in);
  if (options != nullptr && !lockstep::capi::read_sized(options, in, "options")) return 0;
  return lockstep::packed_size({in.k, in.k_reduced, in.max_fingerprints, in.seed});
}

lockstep_status lockstep_pack_step(lockstep_monitor* monitor, void* buffer, size_t capacity, size_t* written) {
  return guarded([&] { return lockstep::capi::pack_step(monitor, buffer, capacity, written); });
}

lockstep_status lockstep_ingest_step(lockstep_monitor* monitor, const void* const* records, const size_t* sizes,
                                     size_t count) {
  return guarded([&] { return lockstep::capi::ingest_step(monitor, records, sizes, count); });
}

lockstep_status lockstep_flush(lockstep_monitor* monitor, uint32_t timeout_ms) {
  return guarded([&]() -> lockstep::Status {
    if (monitor == nullptr) return lockstep::capi::no_monitor();
    return monitor->monitor->flush(std::chrono::milliseconds(timeout_ms));
  });
}

lockstep_status lockstep_close(lockstep_monitor* monitor, uint32_t timeout_ms) {
  return guarded([&]() -> lockstep::Status {
    if (monitor == nullptr) return lockstep::capi::no_monitor();
    return monitor->monitor->close(std::chrono::milliseconds(timeout_ms));
  });
}
