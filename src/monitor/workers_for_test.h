// N workers of one process with a monitor each, for the monitor's tests.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include "lockstep/monitor.h"

namespace lockstep::monitor {

using namespace std::chrono_literals;

inline std::vector<float> random_vector(std::size_t size, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> out(size);
  for (float& value : out) value = normal(random);
  return out;
}

inline Segment segment_of(const std::vector<float>& values, std::uint32_t parameter = 0) {
  return {parameter, 0, values.data(), values.size(), DType::kFloat32};
}

// Collects log lines instead of printing them.
struct Log {
  std::mutex mutex;
  std::vector<std::string> lines;
  std::function<void(const std::string&)> sink() {
    return [this](const std::string& line) {
      const std::lock_guard lock(mutex);
      lines.push_back(line);
    };
  }
  std::size_t size() {
    const std::lock_guard lock(mutex);
    return lines.size();
  }
};

inline MonitorOptions small_options() {
  MonitorOptions options;
  options.layout.k = 1024;
  options.deadline = 5000ms;
  return options;
}

struct Workers {
  explicit Workers(std::uint32_t size, const MonitorOptions& options = small_options()) {
    auto transports = make_in_process_transports(size);
    for (std::uint32_t rank = 0; rank < size; ++rank) {
      auto monitor = Monitor::create(rank, size, options, std::move(transports[rank]));
      EXPECT_TRUE(monitor.has_value()) << monitor.error().message();
      monitors.push_back(std::move(*monitor));
    }
  }
  // Every worker shows its gradient, the mean of all, and a loss of rank + 1.
  void step(std::uint64_t number, const std::vector<std::vector<float>>& gradients) {
    std::vector<float> mean(gradients[0].size());
    for (const auto& gradient : gradients) {
      for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += gradient[i] / static_cast<float>(gradients.size());
    }
    for (std::size_t rank = 0; rank < monitors.size(); ++rank) {
      Monitor& monitor = *monitors[rank];
      monitor.begin_step(number);
      monitor.on_loss(static_cast<double>(rank) + 1.0, 10 * (rank + 1));
      monitor.on_gradient(segment_of(gradients[rank]));
      monitor.on_reduced(segment_of(mean));
      monitor.end_step();
    }
  }
  void flush() {
    // Rank 0 last: its gather needs the others' records, which flushing hands over.
    for (std::size_t i = monitors.size(); i-- > 0;) EXPECT_TRUE(monitors[i]->flush(20s).is_ok());
  }
  std::vector<std::unique_ptr<Monitor>> monitors;
};

}  // namespace lockstep::monitor
