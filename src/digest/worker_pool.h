// A few threads that wait for one piece of work at a time, so that DigestAccumulator::add() starts no thread and
// allocates nothing.
//
// Used by one thread at a time. After a fork the child has no such threads: run() then does all shares itself.
#pragma once

#include <sys/types.h>

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace lockstep::digests {

class WorkerPool {
 public:
  using Work = void (*)(void* context, std::uint32_t share) noexcept;

  // `shares` counts the caller; shares - 1 threads are started, or fewer when the system refuses.
  explicit WorkerPool(std::uint32_t shares);
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  // Runs work(context, 0) to work(context, shares - 1), some of them at the same time, and returns when all are done.
  void run(std::uint32_t shares, Work work, void* context) noexcept;

 private:
  void serve(std::uint32_t index) noexcept;

  const pid_t owner_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable done_;
  Work work_ = nullptr;
  void* context_ = nullptr;
  std::uint64_t round_ = 0;         // counts the calls of run(): a thread serves each once
  std::uint32_t round_shares_ = 0;  // shares of this round that threads take: 1 to round_shares_ - 1
  std::uint32_t running_ = 0;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace lockstep::digests
