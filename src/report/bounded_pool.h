// The server's threads: a fixed number, and a queue no longer than that. When both are full the accepting thread waits,
// so that further callers wait in the kernel's own short queue.
#pragma once

#include <httplib.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace lockstep::report {

class BoundedPool : public httplib::TaskQueue {
 public:
  explicit BoundedPool(std::size_t threads) : limit_(threads) {
    for (std::size_t i = 0; i < threads; ++i) threads_.emplace_back([this] { work(); });
  }

  void enqueue(std::function<void()> task) override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return tasks_.size() < limit_ || stopping_; });
    tasks_.push_back(std::move(task));
    changed_.notify_all();
  }

  // What was accepted is still answered.
  void shutdown() override {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
      changed_.notify_all();
    }
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return !tasks_.empty() || stopping_; });
      if (tasks_.empty()) return;
      std::function<void()> task = std::move(tasks_.front());
      tasks_.pop_front();
      changed_.notify_all();
      lock.unlock();
      task();
      lock.lock();
    }
  }

  const std::size_t limit_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace lockstep::report
