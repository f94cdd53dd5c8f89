// The conformance suite over what lives in one process: ranks are threads. The third backend runs RemoteTransport over
// a link in memory, so that its threading is seen by the thread sanitizer, which MPI and libtorch cannot be.
#include "comm/conformance.h"

#include <gtest/gtest.h>

#include <barrier>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <thread>

#include "comm/memory_link.h"
#include "comm/remote_transport.h"

namespace lockstep::comm {
namespace {

// An all-gather of threads, as a host would give it: bounded, in rank order.
class ThreadAllGather {
 public:
  explicit ThreadAllGather(std::uint32_t size) : size_(size) {}

  int operator()(std::uint32_t rank, const void* send, std::size_t bytes, void* receive) {
    std::unique_lock lock(mutex_);
    // The buffer of the call before may still be read.
    if (!changed_.wait_for(lock, kPatience, [&] { return leaving_ == 0; })) return 1;
    buffer_.resize(size_ * bytes);
    std::memcpy(buffer_.data() + rank * bytes, send, bytes);
    const std::uint64_t round = round_;
    if (++arrived_ == size_) {
      arrived_ = 0;
      leaving_ = size_;
      ++round_;
      changed_.notify_all();
    } else if (!changed_.wait_for(lock, kPatience, [&] { return round_ != round; })) {
      return 2;
    }
    std::memcpy(receive, buffer_.data(), buffer_.size());
    if (--leaving_ == 0) changed_.notify_all();
    return 0;
  }

 private:
  static constexpr std::chrono::seconds kPatience{60};
  std::uint32_t size_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::byte> buffer_;
  std::uint32_t arrived_ = 0;
  std::uint32_t leaving_ = 0;
  std::uint64_t round_ = 0;
};

using Transports = std::vector<std::unique_ptr<Transport>>;

Transports make_callback_transports(std::uint32_t size, std::size_t largest_bytes) {
  auto all_gather = std::make_shared<ThreadAllGather>(size);
  Transports transports;
  for (std::uint32_t rank = 0; rank < size; ++rank) {
    const auto call = [all_gather, rank](const void* send, std::size_t bytes, void* receive) {
      return (*all_gather)(rank, send, bytes, receive);
    };
    auto transport = make_callback_transport({.rank = rank, .size = size, .slot_bytes = largest_bytes + 8192}, call);
    transports.push_back(std::move(transport).value());
  }
  return transports;
}

Transports make_memory_transports(std::uint32_t size, std::size_t) {
  auto wires = std::make_shared<MemoryWires>(size);
  Transports transports;
  for (std::uint32_t rank = 0; rank < size; ++rank) {
    transports.push_back(
        RemoteTransport::start("memory", std::make_unique<MemoryLink>(wires, rank), rank, size).value());
  }
  return transports;
}

Transports make_threads_transports(std::uint32_t size, std::size_t) {
  return make_in_process_transports(size);
}

struct Backend {
  const char* name;
  bool collective;
  Transports (*make)(std::uint32_t size, std::size_t largest_bytes);
};

constexpr Backend kBackends[] = {{"InProcess", false, make_threads_transports},
                                 {"Callback", true, make_callback_transports},
                                 {"Memory", false, make_memory_transports}};

struct Case {
  Backend backend;
  std::uint32_t size;
  Scenario scenario;
};

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const Backend& backend : kBackends) {
    for (const std::uint32_t size : {1U, 2U, 3U, 4U, 8U}) {
      for (const Scenario& scenario : conformance_suite()) {
        if (!backend.collective || !scenario.independent) cases.push_back({backend, size, scenario});
      }
    }
  }
  return cases;
}

class Conformance : public testing::TestWithParam<Case> {};

TEST_P(Conformance, Holds) {
  const Case& given = GetParam();
  Transports transports = given.backend.make(given.size, given.scenario.largest_bytes);
  ASSERT_EQ(transports.size(), given.size);
  std::barrier meeting(static_cast<std::ptrdiff_t>(given.size));
  std::vector<std::thread> ranks;
  for (std::unique_ptr<Transport>& transport : transports) {
    ranks.emplace_back([&meeting, &given, &transport] {
      run_scenario(given.scenario, {*transport, [&meeting] { meeting.arrive_and_wait(); }});
    });
  }
  for (std::thread& rank : ranks) rank.join();
}

INSTANTIATE_TEST_SUITE_P(Threads, Conformance, testing::ValuesIn(all_cases()), [](const auto& info) {
  return std::string(info.param.backend.name) + "_" + std::to_string(info.param.size) + "_" + info.param.scenario.name;
});

}  // namespace
}  // namespace lockstep::comm
