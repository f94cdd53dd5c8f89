// The monitor's own thread: takes ended records, carries them, analyses what comes back, calls observers.
//
// Shared between the Monitor and its thread, so that a thread that cannot be joined in time (an observer that hangs, a
// host's all-gather that never returns) can be left behind without waiting for it. All waiting in here is off the
// training thread.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "lockstep/monitor.h"

namespace lockstep::monitor {

class Worker {
 public:
  Worker(std::uint32_t rank, std::uint32_t world, const MonitorOptions& options, std::unique_ptr<Transport> transport);

  // Starts the thread of `worker`; the thread keeps it alive.
  static Status start(const std::shared_ptr<Worker>& worker);

  // Hands over an ended record. False when the queue is full: the record is dropped and counted.
  bool push(Record record);

  // For hosts that carry bytes themselves (no transport).
  Result<std::vector<std::byte>> pack_oldest();
  Status push_messages(std::span<const std::span<const std::byte>> messages);

  void add_observer(std::shared_ptr<Observer> observer);
  void set_deadline(std::chrono::milliseconds deadline) noexcept { deadline_ms_ = deadline.count(); }
  void set_cosine_matrix(bool on) noexcept { cosine_matrix_ = on; }

  // True when everything pushed so far was handled in time.
  bool flush(std::chrono::milliseconds timeout);

  // Ends the thread; when it does not end in time it is left behind, and the Status says so. Idempotent.
  Status stop(std::chrono::milliseconds timeout);

  // First failure only: stops accepting work and writes one line to the log.
  void disable(const Status& reason) noexcept;
  bool enabled() const noexcept { return enabled_.load(std::memory_order_relaxed); }
  void reject_call(const char* what) noexcept;
  void count_begun() noexcept { steps_begun_.fetch_add(1, std::memory_order_relaxed); }

  Health health() const;
  StepStats latest() const;
  std::uint64_t drops() const noexcept { return drops_queue_.load(std::memory_order_relaxed); }

 private:
  struct Messages {  // one step's records as bytes, indexed by rank
    std::vector<std::vector<std::byte>> bytes;
    std::vector<bool> arrived;
  };

  void run() noexcept;
  void carry(const Record& record);
  void poll_publications();
  void analyse(std::uint64_t step, const Messages& messages);
  void observe(const Step& step, const StepStats& stats);
  void problem(const std::string& text);

  const std::uint32_t rank_;
  const std::uint32_t world_;
  const MonitorOptions options_;
  const std::unique_ptr<Transport> transport_;
  StatsEngine stats_;
  bool matrix_applied_;

  mutable std::mutex mutex_;  // guards what follows, up to the atomics
  std::condition_variable wake_;
  std::condition_variable idle_;
  std::deque<Record> records_;     // ended, not yet carried (or taken by pack_oldest)
  std::deque<Messages> incoming_;  // given by push_messages
  bool busy_ = false;
  bool stopping_ = false;
  bool finished_ = false;
  std::vector<std::shared_ptr<Observer>> observers_;
  StepStats latest_;
  Status reason_;
  std::string last_problem_;
  std::thread thread_;

  std::atomic<bool> enabled_{true};
  std::atomic<bool> cosine_matrix_;
  std::atomic<std::int64_t> deadline_ms_;
  std::atomic<std::uint64_t> steps_begun_{0}, steps_sent_{0}, steps_analysed_{0}, drops_queue_{0}, drops_late_{0},
      missing_records_{0}, rejected_records_{0}, rejected_calls_{0}, observer_failures_{0}, bytes_sent_{0};
};

}  // namespace lockstep::monitor
