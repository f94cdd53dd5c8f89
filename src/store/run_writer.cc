#include "store/run_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <limits>
#include <mutex>
#include <thread>

#include "base/log.h"
#include "store/batch.h"
#include "store/run_file.h"
#include "store/schema.h"

namespace lockstep::store {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kMaxFlushInterval{500};
constexpr milliseconds kDestructorDeadline{5000};
constexpr std::size_t kMaxExpectations = 1U << 16;  // steps of them that may wait for the disk

// A refused write that can work later (space, locks) is retried; a damaged or foreign file is not.
bool worth_a_retry(const Status& status) {
  return status.code() == StatusCode::kIo || status.code() == StatusCode::kUnavailable;
}

std::string counts_json(const WriterHealth& health) {
  return fmt::format(R"({{"steps_accepted":{},"steps_dropped":{},"failures":{}}})", health.steps_accepted,
                     health.steps_dropped, health.failures);
}

}  // namespace

// `mutex` guards everything but `file` and `writer`, which belong to the thread while it runs.
struct RunWriter::Impl {
  RunFile file;
  BatchWriter writer;
  RunWriterOptions options;
  std::int64_t next_matrix = 0;

  mutable std::mutex mutex;
  std::condition_variable work;     // for the thread
  std::condition_variable outcome;  // for those who wait for it
  Batch pending;
  std::size_t pending_bytes = 0;  // of pending and in flight
  std::optional<steady_clock::time_point> pending_since;
  std::uint64_t accepted = 0, settled = 0;  // counts of calls; settled: committed, or given up
  std::uint64_t attempts = 0;
  bool flush_now = false, stopping = false, finished = false, broken = false;
  WriterHealth health;
  Status end_status;
  std::thread thread;

  void run();
  Status attempt(const Batch& batch);
  void settle(const Status& status, Batch& batch, std::uint64_t calls, std::size_t bytes);
  void give_up(Batch& batch);
  void wait_for_work(std::unique_lock<std::mutex>& lock, bool retrying);

  // Runs `change` on the pending batch under the lock; whatever it throws loses that one item.
  template <class Change>
  void put(Change&& change) noexcept {
    try {
      const std::lock_guard lock(mutex);
      if (stopping || broken) return;
      change(pending);
      note_pending();
    } catch (...) {
      base::log_line(options.log, "run store: an item was lost: out of memory");
    }
  }
  void note_pending() {
    ++accepted;
    if (!pending_since) pending_since = steady_clock::now();
    work.notify_one();
  }
  bool make_room(std::unique_lock<std::mutex>& lock, std::size_t bytes);
};

Status RunWriter::Impl::attempt(const Batch& batch) {
  try {
    return writer.write(file.database, batch, options.max_matrices);
  } catch (const std::exception& error) {
    return {StatusCode::kInternal, fmt::format("{}: {}", file.path.string(), error.what())};
  }
}

void RunWriter::Impl::wait_for_work(std::unique_lock<std::mutex>& lock, bool retrying) {
  if (retrying) {
    work.wait_for(lock, options.retry_interval, [&] { return stopping || flush_now; });
    return;
  }
  work.wait(lock, [&] { return stopping || pending_since.has_value(); });
  if (!pending_since) return;
  const auto due = *pending_since + std::min(options.flush_interval, kMaxFlushInterval);
  const std::size_t high_water = options.queue_bytes / 2;
  work.wait_until(lock, due, [&] { return stopping || flush_now || pending_bytes > high_water; });
}

void RunWriter::Impl::settle(const Status& status, Batch& batch, std::uint64_t calls, std::size_t bytes) {
  const bool failed_before = !health.status.is_ok();
  ++attempts;
  health.status = status;
  if (status) {
    health.steps_written += batch.steps.size();
    if (!batch.steps.empty()) health.last_written_step = static_cast<std::uint64_t>(batch.steps.back().step);
    batch = Batch();
    settled = calls;
    pending_bytes -= bytes;
    if (failed_before) {
      base::log_line(options.log, fmt::format("run store works again; {} steps were dropped", health.steps_dropped));
    }
  } else {
    ++health.failures;
    if (!failed_before) {
      base::log_line(options.log, fmt::format("run store: {}; training goes on, {}", status.message(),
                                              worth_a_retry(status) ? "will try again" : "nothing more is stored"));
    }
    if (!worth_a_retry(status)) give_up(batch);
  }
  outcome.notify_all();
}

void RunWriter::Impl::give_up(Batch& batch) {
  broken = true;
  health.steps_dropped += batch.steps.size() + pending.steps.size();
  batch = Batch();
  pending = Batch();
  pending_bytes = 0;
  pending_since.reset();
  settled = accepted;
}

void RunWriter::Impl::run() {
  Batch batch;  // in flight: stays here until the disk takes it
  std::uint64_t calls = 0;
  std::size_t bytes = 0;
  WriterHealth stored;
  std::unique_lock lock(mutex);
  while (!broken) {
    wait_for_work(lock, !batch.empty());
    const bool news = health.steps_dropped != stored.steps_dropped || health.failures != stored.failures;
    if (stopping && batch.empty() && pending.empty() && !news) break;
    flush_now = false;
    batch.append(std::exchange(pending, Batch()), options.max_matrices);
    pending_since.reset();
    calls = accepted;
    bytes = pending_bytes;
    if (news) {
      batch.documents[kStoreDocument] = counts_json(health);
      stored = health;
    }
    lock.unlock();
    const Status status = attempt(batch);
    lock.lock();
    const bool last = stopping;
    settle(status, batch, calls, bytes);
    if (!status && last && !broken) give_up(batch);
  }
  lock.unlock();
  Status ended = broken ? health.status : end_run(file);
  writer = BatchWriter();
  file.database = Database();
  file.lock = WriterLock();
  lock.lock();
  end_status = std::move(ended);
  finished = true;
  outcome.notify_all();
}

bool RunWriter::Impl::make_room(std::unique_lock<std::mutex>& lock, std::size_t bytes) {
  const auto fits = [&] { return pending_bytes + bytes <= options.queue_bytes || pending_bytes == 0; };
  if (options.wait_when_full) outcome.wait(lock, [&] { return fits() || broken || stopping || !health.status; });
  return fits();
}

RunWriter::RunWriter(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

RunWriter::~RunWriter() {
  (void)close(kDestructorDeadline);
}

Result<std::shared_ptr<RunWriter>> RunWriter::create(const std::filesystem::path& folder, const RunInfo& info,
                                                     const RunWriterOptions& options) {
  return start(folder, &info, options);
}

Result<std::shared_ptr<RunWriter>> RunWriter::open(const std::filesystem::path& folder,
                                                   const RunWriterOptions& options) {
  return start(folder, nullptr, options);
}

Result<std::shared_ptr<RunWriter>> RunWriter::start(const std::filesystem::path& folder, const RunInfo* info,
                                                    const RunWriterOptions& options) {
  try {
    Result<RunFile> file = info != nullptr ? create_run(folder, *info, options.vfs) : open_run(folder, options.vfs);
    if (!file) return file.error();
    Result<BatchWriter> writer = BatchWriter::create(file->database);
    if (!writer) return writer.error();
    Result<std::int64_t> matrices = file->database.integer("SELECT coalesce(max(ordinal) + 1, 0) FROM matrix");
    if (!matrices) return matrices.error();
    auto impl = std::make_shared<Impl>();
    impl->file = std::move(*file);
    impl->writer = std::move(*writer);
    impl->options = options;
    impl->options.max_matrices = std::max(options.max_matrices, 1U);
    impl->next_matrix = *matrices;
    impl->thread = std::thread([impl] { impl->run(); });
    return std::shared_ptr<RunWriter>(new RunWriter(std::move(impl)));
  } catch (const std::exception& error) {
    return Status(StatusCode::kInternal, fmt::format("run folder {}: {}", folder.string(), error.what()));
  }
}

void RunWriter::on_step(const Step& step, const StepStats& stats) noexcept {
  Impl& impl = *impl_;
  try {
    StepRow row = make_row(step, stats, impl.options.stamp_time ? std::optional(now_ms()) : std::nullopt);
    const std::size_t bytes = row.bytes();
    std::unique_lock lock(impl.mutex);
    ++impl.health.steps_accepted;
    const bool storable = step.step <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    if (!storable || impl.broken || impl.stopping || !impl.make_room(lock, bytes)) {
      ++impl.health.steps_dropped;
      return;
    }
    if (!stats.cosine_matrix.empty()) {
      MatrixRow matrix{row.step, impl.next_matrix++, {}, stats.cosine_matrix};
      for (const RankStats& rank : stats.ranks) matrix.ranks.push_back(rank.rank);
      impl.pending.add(std::move(matrix), impl.options.max_matrices);
    }
    impl.pending.steps.push_back(std::move(row));
    impl.pending_bytes += bytes;
    impl.note_pending();
  } catch (...) {
    const std::lock_guard lock(impl.mutex);
    ++impl.health.steps_dropped;
  }
}

void RunWriter::put_expectations(std::uint64_t step, std::vector<Expectation> expectations) noexcept {
  impl_->put([&](Batch& batch) {
    if (batch.expectations.size() < kMaxExpectations) batch.expectations[step] = std::move(expectations);
  });
}

void RunWriter::put_config(std::uint32_t rank, std::string json) noexcept {
  impl_->put([&](Batch& batch) { batch.configs[rank] = std::move(json); });
}

void RunWriter::put_finding(Finding finding) noexcept {
  impl_->put([&](Batch& batch) { batch.findings[finding.id] = std::move(finding); });
}

void RunWriter::put_health(std::uint32_t rank, Health health) noexcept {
  impl_->put([&](Batch& batch) { batch.health[rank] = std::move(health); });
}

void RunWriter::put_document(std::string name, std::string json) noexcept {
  impl_->put([&](Batch& batch) { batch.documents[std::move(name)] = std::move(json); });
}

WriterHealth RunWriter::health() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->health;
}

Status RunWriter::flush(milliseconds timeout) {
  Impl& impl = *impl_;
  std::unique_lock lock(impl.mutex);
  const std::uint64_t target = impl.accepted;
  const std::uint64_t attempts = impl.attempts;
  impl.flush_now = true;
  impl.work.notify_one();
  const bool done = impl.outcome.wait_for(lock, timeout, [&] {
    return impl.settled >= target || impl.finished || (impl.attempts > attempts && !impl.health.status);
  });
  if (!impl.health.status) return impl.health.status;
  if (done) return Status::ok();
  return {StatusCode::kDeadlineExceeded,
          fmt::format("{}: not all steps were written within {} ms", impl.file.path.string(), timeout.count())};
}

Status RunWriter::close(milliseconds timeout) {
  Impl& impl = *impl_;
  std::unique_lock lock(impl.mutex);
  impl.stopping = true;
  impl.work.notify_one();
  const bool done = impl.outcome.wait_for(lock, timeout, [&] { return impl.finished; });
  std::thread thread = std::move(impl.thread);
  const Status status = impl.end_status;
  const std::uint64_t dropped = impl.health.steps_dropped;
  lock.unlock();
  if (!done) {
    if (thread.joinable()) thread.detach();
    return {StatusCode::kDeadlineExceeded,
            fmt::format("{}: the disk did not finish within {} ms", impl.file.path.string(), timeout.count())};
  }
  if (thread.joinable()) thread.join();
  if (!status) return {status.code(), fmt::format("{} ({} steps were lost)", status.message(), dropped)};
  return Status::ok();
}

}  // namespace lockstep::store
