#include "monitor/worker.h"

#include <fmt/format.h>

#include <exception>
#include <system_error>
#include <utility>

#include "base/log.h"
#include "monitor/publication.h"

namespace lockstep::monitor {

Worker::Worker(std::uint32_t rank, std::uint32_t world, const MonitorOptions& options,
               std::unique_ptr<Transport> transport)
    : rank_(rank),
      world_(world),
      options_(options),
      transport_(std::move(transport)),
      stats_(options.stats),
      matrix_applied_(options.stats.cosine_matrix),
      cosine_matrix_(options.stats.cosine_matrix),
      deadline_ms_(options.deadline.count()) {}

Status Worker::start(const std::shared_ptr<Worker>& worker) {
  try {
    worker->thread_ = std::thread([worker] { worker->run(); });
  } catch (const std::system_error& error) {
    return {StatusCode::kInternal,
            fmt::format("rank {}: cannot start the monitor's thread: {}", worker->rank_, error.what())};
  }
  return Status::ok();
}

bool Worker::push(Record record) {
  {
    const std::lock_guard lock(mutex_);
    if (stopping_ || !enabled()) return true;  // nobody will ask for it
    if (records_.size() >= options_.queue_capacity) {
      drops_queue_.fetch_add(1, std::memory_order_relaxed);
      last_problem_ =
          fmt::format("step {}: own record dropped, {} steps were already waiting", record.step, records_.size());
      return false;
    }
    records_.push_back(std::move(record));
  }
  wake_.notify_one();
  return true;
}

Result<std::vector<std::byte>> Worker::pack_oldest() {
  Record record;
  {
    const std::lock_guard lock(mutex_);
    if (transport_ != nullptr) {
      return Status(StatusCode::kFailedPrecondition,
                    fmt::format("rank {}: pack_step is for monitors without a transport", rank_));
    }
    if (records_.empty()) {
      return Status(StatusCode::kUnavailable, fmt::format("rank {}: no ended step is waiting", rank_));
    }
    record = std::move(records_.front());
    records_.pop_front();
  }
  Result<std::vector<std::byte>> bytes = pack(record, options_.layout);
  if (bytes) {
    steps_sent_.fetch_add(1, std::memory_order_relaxed);
    bytes_sent_.fetch_add(bytes->size(), std::memory_order_relaxed);
  }
  return bytes;
}

Status Worker::push_messages(std::span<const std::span<const std::byte>> messages) {
  if (transport_ != nullptr) {
    return {StatusCode::kFailedPrecondition,
            fmt::format("rank {}: ingest_step is for monitors without a transport", rank_)};
  }
  if (messages.size() != world_) {
    return {
        StatusCode::kInvalidArgument,
        fmt::format("rank {}: ingest_step got {} records, the world has {} ranks (an empty one stands for a missing "
                    "rank)",
                    rank_, messages.size(), world_)};
  }
  Messages copy;
  for (const auto& message : messages) {
    copy.arrived.push_back(!message.empty());
    copy.bytes.emplace_back(message.begin(), message.end());
  }
  {
    const std::lock_guard lock(mutex_);
    if (stopping_ || !enabled()) return {StatusCode::kFailedPrecondition, "the monitor is closed or disabled"};
    if (incoming_.size() >= options_.queue_capacity) {
      drops_queue_.fetch_add(1, std::memory_order_relaxed);
      return {StatusCode::kUnavailable,
              fmt::format("rank {}: {} steps are already waiting for analysis; this one was dropped", rank_,
                          incoming_.size())};
    }
    incoming_.push_back(std::move(copy));
  }
  wake_.notify_one();
  return Status::ok();
}

void Worker::add_observer(std::shared_ptr<Observer> observer) {
  const std::lock_guard lock(mutex_);
  observers_.push_back(std::move(observer));
}

void Worker::run() noexcept {
  try {
    std::unique_lock lock(mutex_);
    const auto has_work = [this] { return !incoming_.empty() || (transport_ != nullptr && !records_.empty()); };
    while (true) {
      wake_.wait(lock, [&] { return stopping_ || has_work(); });
      if (!has_work() || !enabled()) break;
      std::optional<Record> record;
      std::optional<Messages> messages;
      if (!incoming_.empty()) {
        messages = std::move(incoming_.front());
        incoming_.pop_front();
      } else {
        record = std::move(records_.front());
        records_.pop_front();
      }
      busy_ = true;
      lock.unlock();
      if (record) carry(*record);
      if (messages) analyse(0, *messages);
      lock.lock();
      busy_ = false;
      idle_.notify_all();
      if (!enabled()) break;
    }
  } catch (const std::exception& error) {
    disable({StatusCode::kInternal, fmt::format("rank {}: {}", rank_, error.what())});
  } catch (...) {
    disable({StatusCode::kInternal, fmt::format("rank {}: an exception of unknown type", rank_)});
  }
  if (transport_ != nullptr) {
    try {
      (void)transport_->close(Clock::now() + std::chrono::milliseconds(deadline_ms_.load()));
    } catch (...) {
      disable({StatusCode::kInternal, fmt::format("rank {}: closing the transport threw", rank_)});
    }
  }
  const std::lock_guard lock(mutex_);
  busy_ = false;
  finished_ = true;
  idle_.notify_all();
}

void Worker::carry(const Record& record) {
  Result<std::vector<std::byte>> bytes = pack(record, options_.layout);
  if (!bytes) return disable(bytes.error());
  const auto deadline = Clock::now() + std::chrono::milliseconds(deadline_ms_.load());
  Result<GatheredStep> gathered = transport_->gather(record.step, *bytes, deadline);
  if (!gathered) return disable(gathered.error());
  steps_sent_.fetch_add(1, std::memory_order_relaxed);
  bytes_sent_.fetch_add(bytes->size(), std::memory_order_relaxed);
  drops_late_.fetch_add(gathered->late, std::memory_order_relaxed);
  if (rank_ != 0) return poll_publications();
  if (!gathered->status) problem(gathered->status.message());
  Messages messages{std::move(gathered->messages), std::move(gathered->arrived)};
  analyse(record.step, messages);
}

void Worker::poll_publications() {
  while (true) {
    Result<std::optional<std::vector<std::byte>>> message = transport_->poll();
    if (!message) return disable(message.error());
    if (!message->has_value()) return;
    Result<StepStats> stats = unpack_publication(**message);
    const std::lock_guard lock(mutex_);
    if (stats) {
      latest_ = std::move(*stats);
    } else {
      last_problem_ = stats.error().message();
    }
  }
}

// With messages of push_messages the step is what the records say; they must agree.
void Worker::analyse(std::uint64_t step_number, const Messages& messages) {
  Step step;
  step.world = world_;
  bool named = transport_ != nullptr;
  step.step = step_number;
  for (std::uint32_t rank = 0; rank < world_; ++rank) {
    if (!messages.arrived[rank]) {
      missing_records_.fetch_add(1, std::memory_order_relaxed);
      step.missing.push_back(rank);
      continue;
    }
    Result<Record> record = unpack(messages.bytes[rank], options_.layout, rank);
    if (record && !named) {
      step.step = record->step;
      named = true;
    }
    Status refusal = record ? Status::ok() : record.error();
    if (record && (record->step != step.step || record->world != world_)) {
      refusal = {StatusCode::kCorrupt, fmt::format("rank {} sent step {} of a world of {}, expected step {} of {}",
                                                   rank, record->step, record->world, step.step, world_)};
    }
    if (!refusal) {
      rejected_records_.fetch_add(1, std::memory_order_relaxed);
      problem(refusal.message());
      step.missing.push_back(rank);
      continue;
    }
    step.records.push_back(std::move(*record));
  }
  if (const bool matrix = cosine_matrix_.load(); matrix != matrix_applied_) {
    StatsOptions options = options_.stats;
    options.cosine_matrix = matrix;
    stats_.set_options(options);
    matrix_applied_ = matrix;
  }
  StepStats stats = stats_.update(step);
  steps_analysed_.fetch_add(1, std::memory_order_relaxed);
  observe(step, stats);
  if (transport_ != nullptr && world_ > 1) {
    if (Status status = transport_->publish(pack_publication(stats)); !status) problem(status.message());
  }
  const std::lock_guard lock(mutex_);
  latest_ = std::move(stats);
}

void Worker::observe(const Step& step, const StepStats& stats) {
  std::vector<std::shared_ptr<Observer>> observers;
  {
    const std::lock_guard lock(mutex_);
    observers = observers_;
  }
  for (const auto& observer : observers) {
    std::string failure;
    try {
      observer->on_step(step, stats);
      continue;
    } catch (const std::exception& error) {
      failure = error.what();
    } catch (...) {
      failure = "an exception of unknown type";
    }
    observer_failures_.fetch_add(1, std::memory_order_relaxed);
    const std::string text = fmt::format("step {}: an observer failed and was removed: {}", step.step, failure);
    problem(text);
    base::log_line(options_.log, text);
    const std::lock_guard lock(mutex_);
    std::erase(observers_, observer);
  }
}

void Worker::problem(const std::string& text) {
  const std::lock_guard lock(mutex_);
  last_problem_ = text;
}

void Worker::disable(const Status& reason) noexcept {
  if (!enabled_.exchange(false)) return;
  try {
    {
      const std::lock_guard lock(mutex_);
      reason_ = reason;
      last_problem_ = reason.message();
    }
    base::log_line(options_.log,
                   fmt::format("monitoring is off from here on, training is not affected: {}", reason.message()));
  } catch (...) {
    base::log_line({}, "monitoring is off from here on, training is not affected");
  }
  wake_.notify_all();
  idle_.notify_all();
}

void Worker::reject_call(const char* what) noexcept {
  rejected_calls_.fetch_add(1, std::memory_order_relaxed);
  try {
    problem(fmt::format("rank {}: {}", rank_, what));
  } catch (...) {
    return;  // the count says enough
  }
}

bool Worker::flush(std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  return idle_.wait_for(lock, timeout, [this] {
    const bool carried = transport_ == nullptr || records_.empty();
    return finished_ || !enabled() || (carried && incoming_.empty() && !busy_);
  });
}

Status Worker::stop(std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  if (!thread_.joinable()) return Status::ok();
  stopping_ = true;
  wake_.notify_all();
  const bool ended = idle_.wait_for(lock, timeout, [this] { return finished_; });
  std::thread thread = std::move(thread_);
  lock.unlock();
  if (ended) {
    thread.join();
    return Status::ok();
  }
  thread.detach();  // it holds its own reference to this object
  return {StatusCode::kDeadlineExceeded,
          fmt::format("rank {}: the monitor's thread did not end within {} ms and was left behind", rank_,
                      timeout.count())};
}

Health Worker::health() const {
  Health health;
  health.enabled = enabled();
  health.steps_begun = steps_begun_.load();
  health.steps_sent = steps_sent_.load();
  health.steps_analysed = steps_analysed_.load();
  health.drops_queue = drops_queue_.load();
  health.drops_late = drops_late_.load();
  health.missing_records = missing_records_.load();
  health.rejected_records = rejected_records_.load();
  health.rejected_calls = rejected_calls_.load();
  health.observer_failures = observer_failures_.load();
  health.bytes_sent = bytes_sent_.load();
  const std::lock_guard lock(mutex_);
  health.reason = reason_;
  health.last_problem = last_problem_;
  return health;
}

StepStats Worker::latest() const {
  const std::lock_guard lock(mutex_);
  return latest_;
}

}  // namespace lockstep::monitor
