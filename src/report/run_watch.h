// Notices that runs grew, for the server's events: a thread looks at the files about once a second while someone
// listens.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "report/run_catalog.h"

namespace lockstep::report {

struct RunUpdate {
  std::string run;
  std::uint64_t steps = 0;
  std::uint64_t findings = 0;
};

class RunWatch {
 public:
  RunWatch(const RunCatalog& catalog, std::chrono::milliseconds interval);
  ~RunWatch();
  RunWatch(const RunWatch&) = delete;
  RunWatch& operator=(const RunWatch&) = delete;

  // A listener starts at the present. At most `max` at once: false beyond.
  bool subscribe(std::size_t max, std::uint64_t& position);
  void unsubscribe();
  // Waits for runs that changed since `position` and advances it; empty when the time is up or after stop().
  std::vector<RunUpdate> wait(std::uint64_t& position, std::chrono::milliseconds timeout);

  void stop();  // wakes everyone
  bool stopped() const;

 private:
  struct Seen {
    std::string signature;  // of the files: a cheap sign of change
    RunUpdate update;
    std::uint64_t version = 0;
  };
  void run();
  void look();

  const RunCatalog catalog_;
  const std::chrono::milliseconds interval_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, Seen> seen_;
  std::uint64_t version_ = 0;
  std::size_t listeners_ = 0;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace lockstep::report
