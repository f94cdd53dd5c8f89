#include "digest/worker_pool.h"

#include <unistd.h>

#include <algorithm>
#include <system_error>

namespace lockstep::digests {

WorkerPool::WorkerPool(std::uint32_t shares) : owner_(::getpid()) {
  if (shares <= 1) return;
  threads_.reserve(shares - 1);
  try {
    for (std::uint32_t i = 1; i < shares; ++i) threads_.emplace_back([this, i] { serve(i); });
  } catch (const std::system_error&) {
    // Fewer threads only make add() slower.
  }
}

WorkerPool::~WorkerPool() {
  if (::getpid() != owner_) {  // forked: the threads are not ours and cannot be joined
    for (std::thread& thread : threads_) thread.detach();
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void WorkerPool::run(std::uint32_t shares, Work work, void* context) noexcept {
  const bool alone = shares <= 1 || threads_.empty() || ::getpid() != owner_;
  const std::uint32_t helped =
      alone ? 1 : std::min<std::uint32_t>(shares, static_cast<std::uint32_t>(threads_.size()) + 1);
  if (helped > 1) {
    {
      const std::lock_guard lock(mutex_);
      work_ = work;
      context_ = context;
      round_shares_ = helped;
      running_ = helped - 1;
      ++round_;
    }
    wake_.notify_all();
  }
  work(context, 0);
  for (std::uint32_t share = helped; share < shares; ++share) work(context, share);
  if (helped > 1) {
    std::unique_lock lock(mutex_);
    done_.wait(lock, [this] { return running_ == 0; });
  }
}

void WorkerPool::serve(std::uint32_t index) noexcept {
  std::uint64_t served = 0;
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [&] { return stopping_ || round_ != served; });
    if (stopping_) return;
    served = round_;
    if (index >= round_shares_) continue;
    const Work work = work_;
    void* const context = context_;
    lock.unlock();
    work(context, index);
    lock.lock();
    if (--running_ == 0) done_.notify_one();
  }
}

}  // namespace lockstep::digests
