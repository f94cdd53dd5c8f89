#include "digest/worker_pool.h"

#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace lockstep::digests {

struct WorkerPool::Crew {
  std::mutex mutex;
  std::condition_variable wake;
  std::condition_variable done;
  Work work = nullptr;
  void* context = nullptr;
  std::uint64_t round = 0;   // counts the calls of run(): a thread serves each at most once
  std::uint32_t shares = 0;  // of this round, the caller's included; thread i takes share i
  std::uint32_t running = 0;
  bool stopping = false;
  std::vector<std::thread> threads;

  void serve(std::uint32_t index) noexcept {
    std::uint64_t served = 0;
    std::unique_lock lock(mutex);
    for (;;) {
      wake.wait(lock, [&] { return stopping || round != served; });
      if (stopping) return;
      served = round;
      if (index >= shares) continue;
      const Work now = work;
      void* const with = context;
      lock.unlock();
      now(with, index);
      lock.lock();
      if (--running == 0) done.notify_one();
    }
  }
};

WorkerPool::WorkerPool(std::uint32_t shares) : owner_(::getpid()) {
  if (shares <= 1) return;
  auto crew = std::make_unique<Crew>();
  crew->threads.reserve(shares - 1);
  crew_ = crew.release();
  try {
    for (std::uint32_t i = 1; i < shares; ++i) crew_->threads.emplace_back([crew = crew_, i] { crew->serve(i); });
  } catch (const std::system_error&) {
    // Fewer threads only make run() slower.
  }
}

WorkerPool::~WorkerPool() {
  // In a forked child the threads are gone, and destroying what they waited on would wait for them: it is left behind.
  if (crew_ == nullptr || ::getpid() != owner_) return;
  {
    const std::lock_guard lock(crew_->mutex);
    crew_->stopping = true;
  }
  crew_->wake.notify_all();
  for (std::thread& thread : crew_->threads) thread.join();
  delete crew_;
}

void WorkerPool::run(std::uint32_t shares, Work work, void* context) noexcept {
  const bool alone = shares <= 1 || crew_ == nullptr || ::getpid() != owner_;
  const auto helpers =
      alone ? 0 : std::min<std::uint32_t>(shares - 1, static_cast<std::uint32_t>(crew_->threads.size()));
  if (helpers > 0) {
    {
      const std::lock_guard lock(crew_->mutex);
      crew_->work = work;
      crew_->context = context;
      crew_->shares = helpers + 1;
      crew_->running = helpers;
      ++crew_->round;
    }
    crew_->wake.notify_all();
  }
  work(context, 0);
  for (std::uint32_t share = helpers + 1; share < shares; ++share) work(context, share);
  if (helpers > 0) {
    std::unique_lock lock(crew_->mutex);
    crew_->done.wait(lock, [this] { return crew_->running == 0; });
  }
}

}  // namespace lockstep::digests
