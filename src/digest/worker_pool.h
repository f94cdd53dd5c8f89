// A few threads that wait for one piece of work at a time, so that DigestAccumulator::add() starts no thread and
// allocates nothing.
//
// Used by one thread at a time. After a fork the child has no such threads: run() then does all shares itself.
#pragma once

#include <sys/types.h>

#include <cstdint>

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
  struct Crew;
  Crew* crew_ = nullptr;  // null without threads
  pid_t owner_;
};

}  // namespace lockstep::digests
