// Steps, statistics and folders for tests that need a run: real records, plain formulas. Test code only.
#pragma once

#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <random>
#include <string>

#include "lockstep/stats.h"

namespace lockstep::store {

// A fresh folder that goes with the test.
class TempFolder {
 public:
  TempFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "lockstep_test_XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// Losses fall with the step and differ by rank, so that every number of a test can be told apart.
inline Step make_step(std::uint64_t number, std::uint32_t world) {
  Step step;
  step.step = number;
  step.world = world;
  for (std::uint32_t rank = 0; rank < world; ++rank) {
    Record record;
    record.rank = rank;
    record.world = world;
    record.step = number;
    record.loss_sum = 4.0 / (1.0 + 0.01 * static_cast<double>(number)) + 0.125 * rank;
    record.loss_count = 1;
    record.tokens = 100 + rank;
    record.token_loss_sum = record.loss_sum * static_cast<double>(record.tokens);
    record.gradient = {true, 1000, std::pow(1.0 + rank, 2), 0.5, 0, number * 1000 + rank, {}};
    record.reduced = {true, 1000, 2.25, 0.25, 0, number, {}};
    record.fingerprints = {number * 100 + rank, number * 100 + rank + 50};
    record.fingerprint_count = 2;
    record.timings = {200'000'000, 300'000, 20'000};
    step.records.push_back(std::move(record));
  }
  return step;
}

inline StepStats make_stats(const Step& step) {
  StepStats stats;
  stats.step = step.step;
  stats.workers = static_cast<std::uint32_t>(step.records.size());
  stats.missing = step.world - stats.workers;
  double loss = 0, loss_squares = 0, norm = 0;
  for (const Record& record : step.records) {
    RankStats rank;
    rank.rank = record.rank;
    if (record.loss_count > 0) rank.loss = record.loss_sum / record.loss_count;
    if (record.gradient.observed) rank.norm = std::sqrt(record.gradient.sum_squares);
    rank.leave_one_out = 0.25 + 0.01 * record.rank;
    loss += rank.loss.value_or(0);
    loss_squares += std::pow(rank.loss.value_or(0), 2);
    norm += rank.norm.value_or(0);
    stats.ranks.push_back(rank);
  }
  const double n = std::max<double>(1, stats.workers);
  stats.loss_mean = loss / n;
  stats.loss_std = std::sqrt(std::max(0.0, loss_squares / n - std::pow(loss / n, 2)));
  stats.norm_mean = norm / n;
  stats.cosine_mean = 0.3;
  stats.cosine_mean_error = 0.015;
  stats.noise_ratio = 2.5;
  if (stats.workers <= 64) {
    for (std::uint32_t i = 0; i < stats.workers; ++i) {
      for (std::uint32_t j = 0; j < stats.workers; ++j) stats.cosine_matrix.push_back(i == j ? 1.0F : 0.3F);
    }
  }
  return stats;
}

}  // namespace lockstep::store
