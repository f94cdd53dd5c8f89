#include "train/sampler.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

namespace lockstep::train {
namespace {

using Order = std::vector<std::int64_t>;

Order distributed(std::int64_t n, std::int64_t replicas, std::int64_t rank, std::uint64_t seed, std::uint64_t epoch,
                  bool shuffle = true, bool drop_last = false) {
  DistributedSamplerOptions options;
  options.samples = n;
  options.replicas = replicas;
  options.rank = rank;
  options.seed = seed;
  options.epoch = epoch;
  options.shuffle = shuffle;
  options.drop_last = drop_last;
  Result<Order> order = distributed_order(options);
  EXPECT_TRUE(order) << order.error().message();
  return order.value_or(Order{});
}

// The values below were printed by torch 1.13 (sampler_reference.py).
TEST(DistributedOrder, EqualsStoredValuesOfTorch) {
  EXPECT_EQ(distributed(10, 1, 0, 42, 0), (Order{2, 6, 1, 8, 4, 5, 0, 9, 3, 7}));
  EXPECT_EQ(distributed(10, 4, 3, 42, 0), (Order{8, 9, 6})) << "padded with the order's own beginning";
  EXPECT_EQ(distributed(10, 4, 3, 42, 0, true, true), (Order{8, 9}));
  EXPECT_EQ(distributed(3, 8, 7, 0, 1), (Order{2})) << "more workers than samples: padded more than once around";
  EXPECT_EQ(distributed(3, 8, 1, 42, 0, true, true), Order{});
  EXPECT_EQ(distributed(2, 8, 5, 42, 0, false), (Order{1}));
  EXPECT_EQ(distributed(0, 4, 1, 3, 0), Order{});
  EXPECT_EQ(distributed(7, 2, 1, 42, 1), (Order{1, 4, 0, 3}));
  EXPECT_EQ(distributed(7, 2, 1, (1ULL << 32) + 42, 1), (Order{1, 4, 0, 3})) << "torch uses the low 32 bits of a seed";
}

TEST(DistributedOrder, EqualsStoredValuesOfTorchOnAlpacasSize) {
  Order order = distributed(52002, 8, 5, 42, 0);
  ASSERT_EQ(order.size(), 6501U);
  EXPECT_EQ(Order(order.begin(), order.begin() + 6), (Order{36546, 48296, 2456, 42086, 7123, 21410}));
  EXPECT_EQ(Order(order.end() - 3, order.end()), (Order{18884, 15695, 9568}));
}

TEST(RandomOrder, EqualsStoredValuesOfTorchOverEpochs) {
  EXPECT_EQ(*random_order(10, 42, 0), (Order{2, 6, 1, 8, 4, 5, 0, 9, 3, 7}));
  EXPECT_EQ(*random_order(10, 42, 1), (Order{7, 5, 0, 3, 1, 6, 9, 8, 4, 2}));
  EXPECT_EQ(*random_order(10, 42, 2), (Order{9, 6, 2, 4, 1, 7, 5, 3, 0, 8}));
}

TEST(TorchGenerator, ConsecutivePermutationsContinueTheStream) {
  TorchGenerator walked(7), skipped(7);
  walked.randperm(100);
  walked.randperm(100);
  skipped.skip_randperm(100, 2);
  EXPECT_EQ(walked.randperm(100), skipped.randperm(100));
}

TEST(DistributedOrder, RefusesImpossibleRanksAndSizes) {
  DistributedSamplerOptions options;
  options.samples = 10;
  options.replicas = 4;
  for (std::int64_t rank : {-1, 4, 100}) {
    options.rank = rank;
    EXPECT_FALSE(distributed_order(options)) << rank;
  }
  options.rank = 0;
  options.replicas = 0;
  EXPECT_FALSE(distributed_order(options));
  options.replicas = 1;
  for (std::int64_t samples : {std::int64_t{-1}, kMaxSamples + 1}) {
    options.samples = samples;
    EXPECT_FALSE(distributed_order(options)) << samples;
    EXPECT_FALSE(random_order(samples, 0, 0)) << samples;
  }
}

// Runs the real samplers on many cases at once and compares every index.
class AgainstTorch : public ::testing::Test {
 protected:
  void SetUp() override {
    if (std::string(LOCKSTEP_PYTHON3).empty()) GTEST_SKIP() << "no /usr/bin/python3 when this was configured";
  }

  void add(const std::string& line, Order ours) {
    cases_ << line << '\n';
    lines_.push_back(line);
    ours_.push_back(std::move(ours));
  }

  void compare() {
    auto file = std::filesystem::temp_directory_path() / ("lockstep_sampler_cases." + std::to_string(::getpid()));
    std::ofstream(file) << cases_.str();
    std::string command = std::string(LOCKSTEP_PYTHON3 " " LOCKSTEP_SAMPLER_REFERENCE " < ") + file.string();
    std::FILE* pipe = ::popen(command.c_str(), "r");
    ASSERT_NE(pipe, nullptr);
    std::string output;
    char buffer[65536];
    for (std::size_t n; (n = std::fread(buffer, 1, sizeof(buffer), pipe)) > 0;) output.append(buffer, n);
    int status = ::pclose(pipe);
    std::filesystem::remove(file);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
      GTEST_SKIP() << LOCKSTEP_PYTHON3 " has no torch (Debian: python3-torch)";
    }
    ASSERT_EQ(status, 0);
    std::istringstream answers(output);
    for (std::size_t i = 0; i < lines_.size(); ++i) {
      std::string line;
      ASSERT_TRUE(std::getline(answers, line)) << "no answer for: " << lines_[i];
      std::istringstream numbers(line);
      Order theirs{std::istream_iterator<std::int64_t>(numbers), {}};
      ASSERT_EQ(theirs, ours_[i]) << lines_[i];
    }
  }

 private:
  std::ostringstream cases_;
  std::vector<std::string> lines_;
  std::vector<Order> ours_;
};

TEST_F(AgainstTorch, DistributedSamplerIsBitEqual) {
  for (std::int64_t n : {0, 1, 2, 3, 7, 8, 9, 63, 64, 1000, 1001}) {
    for (std::int64_t replicas : {1, 2, 3, 8}) {
      for (std::uint64_t seed : {0ULL, 42ULL, 1041ULL, 112ULL, 4294967295ULL, 4294967338ULL, 9007199254740993ULL}) {
        for (int flags = 0; flags < 4; ++flags) {
          bool shuffle = (flags & 1) != 0, drop_last = (flags & 2) != 0;
          std::uint64_t epoch = (seed + static_cast<std::uint64_t>(n)) % 4;
          std::int64_t rank = (n + static_cast<std::int64_t>(seed % 8)) % replicas;
          std::ostringstream line;
          line << "distributed " << n << ' ' << replicas << ' ' << rank << ' ' << seed << ' ' << epoch << ' ' << shuffle
               << ' ' << drop_last;
          add(line.str(), distributed(n, replicas, rank, seed, epoch, shuffle, drop_last));
        }
      }
    }
  }
  for (std::int64_t rank = 0; rank < 8; ++rank) {
    std::uint64_t seed = 42 + 10 * static_cast<std::uint64_t>(rank);
    add("distributed 52002 8 " + std::to_string(rank) + " " + std::to_string(seed) + " 2 1 0",
        distributed(52002, 8, rank, seed, 2));
  }
  // Past the length at which torch fills its array on several threads.
  add("distributed 300007 1 0 42 0 1 0", distributed(300007, 1, 0, 42, 0));
  compare();
}

TEST_F(AgainstTorch, RandomSamplerIsBitEqualOverEpochs) {
  for (std::int64_t n : {1, 2, 3, 10, 623, 624, 625, 4000}) {
    for (std::uint64_t seed : {0ULL, 42ULL, 1041ULL}) {
      for (std::uint64_t epoch : {0ULL, 1ULL, 3ULL}) {
        std::ostringstream line;
        line << "random " << n << ' ' << seed << ' ' << epoch;
        add(line.str(), *random_order(n, seed, epoch));
      }
    }
  }
  compare();
}

}  // namespace
}  // namespace lockstep::train
