// The public face: guards every call of the host (disabled, forked, out of order, throwing) and passes it on.
#include "lockstep/monitor.h"

#include <fmt/format.h>

#include <cmath>
#include <exception>
#include <mutex>
#include <utility>

#include "monitor/fork_guard.h"
#include "monitor/step_builder.h"
#include "monitor/worker.h"

namespace lockstep {

using monitor::fork_generation;
using monitor::StepBuilder;
using monitor::Worker;

namespace {

constexpr std::chrono::milliseconds kDestructorTimeout{500};

// Adds the time until its end to a counter.
class Stopwatch {
 public:
  explicit Stopwatch(std::uint64_t& total) noexcept : total_(total), begin_(Clock::now()) {}
  ~Stopwatch() { total_ += static_cast<std::uint64_t>(std::chrono::nanoseconds(Clock::now() - begin_).count()); }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  std::uint64_t& total_;
  Clock::time_point begin_;
};

Status validate(const MonitorOptions& options, std::uint32_t rank, std::uint32_t world, const Transport* transport) {
  const auto refuse = [](std::string text) { return Status(StatusCode::kInvalidArgument, std::move(text)); };
  if (world == 0 || rank >= world) return refuse(fmt::format("rank {} is outside a world of {}", rank, world));
  if (Status status = validate(options.layout); !status) return status;
  if (options.queue_capacity == 0) return refuse("queue_capacity is 0: at least one step must be able to wait");
  if (options.interval == 0) return refuse("interval is 0: use 1 for every step");
  if (options.sketch_interval == 0) return refuse("sketch_interval is 0: use 1 for every watched step");
  if (options.deadline.count() <= 0) return refuse("deadline must be positive");
  if (transport != nullptr && (transport->rank() != rank || transport->size() != world)) {
    return refuse(fmt::format("the monitor is rank {} of {}, its transport rank {} of {}", rank, world,
                              transport->rank(), transport->size()));
  }
  return Status::ok();
}

bool due(std::uint64_t step, std::uint32_t interval) noexcept {
  return interval != 0 && step % interval == 0;
}

}  // namespace

struct Monitor::Impl {
  Impl(std::uint32_t rank, std::uint32_t world, const MonitorOptions& options, std::unique_ptr<Transport> transport)
      : builder(rank, world, options.layout, options.threads),
        worker(std::make_shared<Worker>(rank, world, options, std::move(transport))),
        interval(options.interval),
        sketch_interval(options.sketch_interval),
        exact_cosine_interval(options.exact_cosine_interval),
        state_interval(options.state_interval) {}

  // False in a forked child, where nothing of this may be touched.
  bool ours() const noexcept { return generation == fork_generation(); }
  bool on() const noexcept { return ours() && worker->enabled() && !closed.load(std::memory_order_relaxed); }

  // Runs `body` inside an open, watched step; counts a call outside any step.
  template <class Body>
  void inside(const char* call, Body body) noexcept {
    if (!on()) return;
    const std::lock_guard lock(mutex);
    if (!open) return worker->reject_call(call);
    if (watched) body();
  }

  template <class Fold>
  void fold(const char* outside, const char* malformed, Fold fold) noexcept {
    inside(outside, [&] {
      const Stopwatch watch(timings.digest_ns);
      if (!fold()) worker->reject_call(malformed);
    });
  }

  const std::uint32_t generation = fork_generation();
  std::mutex mutex;  // host calls may come from autograd threads; it is not contended
  StepBuilder builder;
  std::shared_ptr<Worker> worker;
  std::atomic<bool> closed{false};
  std::atomic<std::uint32_t> interval, sketch_interval, exact_cosine_interval, state_interval;

  bool open = false;
  bool watched = false;
  bool direction_due = false;
  bool state_due = false;
  Clock::time_point begun;
  RecordTimings timings;
};

Monitor::Monitor(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Result<std::unique_ptr<Monitor>> Monitor::create(std::uint32_t rank, std::uint32_t world, const MonitorOptions& options,
                                                 std::unique_ptr<Transport> transport) {
  try {
    if (Status status = validate(options, rank, world, transport.get()); !status) return status;
    auto impl = std::make_unique<Impl>(rank, world, options, std::move(transport));
    if (Status status = Worker::start(impl->worker); !status) return status;
    return std::unique_ptr<Monitor>(new Monitor(std::move(impl)));
  } catch (const std::exception& error) {
    return Status(StatusCode::kInternal, fmt::format("rank {}: cannot create the monitor: {}", rank, error.what()));
  }
}

Monitor::~Monitor() {
  if (!impl_->ours()) {
    (void)impl_.release();  // its thread lives in the parent; its locks may be held for ever
    return;
  }
  (void)close(kDestructorTimeout);
}

void Monitor::begin_step(std::uint64_t step) noexcept {
  if (!impl_->on()) return;
  const std::lock_guard lock(impl_->mutex);
  if (impl_->open) impl_->worker->reject_call("begin_step inside a step: the open step was forgotten");
  const std::uint32_t interval = impl_->interval.load(std::memory_order_relaxed);
  const std::uint32_t sketch_interval = impl_->sketch_interval.load(std::memory_order_relaxed);
  impl_->open = true;
  impl_->watched = due(step, interval);
  impl_->worker->count_begun();
  if (!impl_->watched) return;
  impl_->timings = {};
  impl_->begun = Clock::now();
  impl_->direction_due = due(step, impl_->exact_cosine_interval.load(std::memory_order_relaxed));
  impl_->state_due = due(step, impl_->state_interval.load(std::memory_order_relaxed));
  impl_->builder.begin(step, due(step / interval, sketch_interval));
  impl_->timings.other_ns += static_cast<std::uint64_t>(std::chrono::nanoseconds(Clock::now() - impl_->begun).count());
}

void Monitor::on_gradient(const Segment& segment) noexcept {
  impl_->fold("on_gradient outside a step", "on_gradient: no such dtype, or null data",
              [&] { return impl_->builder.add_gradient(segment); });
}

void Monitor::on_reduced(const Segment& segment) noexcept {
  impl_->fold("on_reduced outside a step", "on_reduced: no such dtype, or null data",
              [&] { return impl_->builder.add_reduced(segment); });
}

void Monitor::on_gradient(const Digest& digest) noexcept {
  impl_->fold("on_gradient outside a step", "on_gradient: the digest's sketch does not fold to the layout's k",
              [&] { return impl_->builder.add_gradient(digest); });
}

void Monitor::on_reduced(const Digest& digest) noexcept {
  impl_->fold("on_reduced outside a step", "on_reduced: the digest's sketch does not fold to the layout's k_reduced",
              [&] { return impl_->builder.add_reduced(digest); });
}

void Monitor::on_direction_sum(const Segment& segment) noexcept {
  impl_->fold("on_direction_sum outside a step", "on_direction_sum: no such dtype, or null data",
              [&] { return impl_->builder.add_direction_sum(segment); });
}

void Monitor::on_state(StateChannel channel, const Segment& segment) noexcept {
  impl_->fold("on_state outside a step", "on_state: no such channel or dtype, or null data", [&] {
    return static_cast<std::size_t>(channel) < kStateChannels && impl_->builder.add_state(channel, segment);
  });
}

void Monitor::on_state(StateChannel channel, std::uint64_t hash) noexcept {
  impl_->inside("on_state outside a step", [&] {
    if (static_cast<std::size_t>(channel) >= kStateChannels)
      return impl_->worker->reject_call("on_state: no such channel");
    impl_->builder.add_state(channel, hash);
  });
}

void Monitor::on_batch(std::span<const std::uint64_t> fingerprints) noexcept {
  impl_->inside("on_batch outside a step", [&] {
    const Stopwatch watch(impl_->timings.other_ns);
    impl_->builder.add_batch(fingerprints);
  });
}

void Monitor::on_loss(double loss, std::uint64_t tokens) noexcept {
  impl_->inside("on_loss outside a step", [&] { impl_->builder.add_loss(loss, tokens); });
}

void Monitor::end_step() noexcept {
  if (!impl_->on()) return;
  const std::lock_guard lock(impl_->mutex);
  if (!impl_->open) return impl_->worker->reject_call("end_step without begin_step");
  impl_->open = false;
  if (!std::exchange(impl_->watched, false)) return;
  try {
    const auto begin = Clock::now();
    Record record = impl_->builder.finish();
    const auto end = Clock::now();
    impl_->timings.other_ns += static_cast<std::uint64_t>(std::chrono::nanoseconds(end - begin).count());
    impl_->timings.step_ns = static_cast<std::uint64_t>(std::chrono::nanoseconds(end - impl_->begun).count());
    record.timings = impl_->timings;
    record.drops = impl_->worker->drops();
    impl_->worker->push(std::move(record));
  } catch (const std::exception& error) {
    impl_->worker->disable({StatusCode::kInternal, error.what()});
  } catch (...) {
    impl_->worker->disable({StatusCode::kInternal, "an exception of unknown type in end_step"});
  }
}

bool Monitor::watching() const noexcept {
  if (!impl_->on()) return false;
  const std::lock_guard lock(impl_->mutex);
  return impl_->open && impl_->watched;
}

bool Monitor::wants_direction_sum() const noexcept {
  if (!impl_->on()) return false;
  const std::lock_guard lock(impl_->mutex);
  return impl_->open && impl_->watched && impl_->direction_due;
}

bool Monitor::wants_state() const noexcept {
  if (!impl_->on()) return false;
  const std::lock_guard lock(impl_->mutex);
  return impl_->open && impl_->watched && impl_->state_due;
}

double Monitor::gradient_norm() const noexcept {
  if (!impl_->on()) return 0;
  const std::lock_guard lock(impl_->mutex);
  return impl_->open && impl_->watched ? std::sqrt(impl_->builder.gradient_sum_squares()) : 0;
}

void Monitor::add_observer(std::shared_ptr<Observer> observer) {
  if (impl_->ours() && observer != nullptr) impl_->worker->add_observer(std::move(observer));
}

Status Monitor::set(Setting setting, std::uint64_t value) {
  const auto refuse = [&](const char* what) {
    return Status(StatusCode::kInvalidArgument, fmt::format("{} = {}: out of range", what, value));
  };
  const bool fits = value <= 0xffffffffU;
  const auto small = static_cast<std::uint32_t>(value);
  switch (setting) {
    case Setting::kInterval:
      if (!fits || value == 0) return refuse("interval");
      impl_->interval = small;
      return Status::ok();
    case Setting::kSketchInterval:
      if (!fits || value == 0) return refuse("sketch_interval");
      impl_->sketch_interval = small;
      return Status::ok();
    case Setting::kExactCosineInterval:
      if (!fits) return refuse("exact_cosine_interval");
      impl_->exact_cosine_interval = small;
      return Status::ok();
    case Setting::kStateInterval:
      if (!fits) return refuse("state_interval");
      impl_->state_interval = small;
      return Status::ok();
    case Setting::kDeadlineMs:
      if (!fits || value == 0) return refuse("deadline_ms");
      impl_->worker->set_deadline(std::chrono::milliseconds(small));
      return Status::ok();
    case Setting::kCosineMatrix:
      impl_->worker->set_cosine_matrix(value != 0);
      return Status::ok();
  }
  return {StatusCode::kInvalidArgument, fmt::format("no setting has the number {}", static_cast<int>(setting))};
}

Health Monitor::health() const {
  if (impl_->ours()) return impl_->worker->health();
  Health health;
  health.enabled = false;
  health.reason = {StatusCode::kFailedPrecondition, "this process is a fork of the one that is monitored"};
  return health;
}

StepStats Monitor::latest() const {
  return impl_->ours() ? impl_->worker->latest() : StepStats{};
}

Result<std::vector<std::byte>> Monitor::pack_step() {
  if (!impl_->ours()) return Status(StatusCode::kFailedPrecondition, "pack_step in a forked child");
  return impl_->worker->pack_oldest();
}

Status Monitor::ingest_step(std::span<const std::span<const std::byte>> messages) {
  if (!impl_->ours()) return {StatusCode::kFailedPrecondition, "ingest_step in a forked child"};
  return impl_->worker->push_messages(messages);
}

Status Monitor::flush(std::chrono::milliseconds timeout) {
  if (!impl_->ours() || impl_->worker->flush(timeout)) return Status::ok();
  return {StatusCode::kDeadlineExceeded, fmt::format("steps were still waiting after {} ms", timeout.count())};
}

Status Monitor::close(std::chrono::milliseconds timeout) {
  if (!impl_->ours() || impl_->closed.exchange(true)) return Status::ok();
  return impl_->worker->stop(timeout);
}

}  // namespace lockstep
