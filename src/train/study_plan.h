// What a study trains: its arms (setting x reading), the seeds it repeats them with, and what is known beforehand.
//
// S1 varies the seeds of the data order (the paper's S1-1, S1-2, S1-3), S2 the arithmetic (S2-1 fp32, S2-2 bf16, both
// with the seeds of S1-1). Every arm is trained once per base seed; the arms of one base seed form a pair or triple.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/status.h"
#include "train/precision.h"
#include "train/readings.h"

namespace lockstep::train {

enum class StudyKind { kS1, kS2 };
const char* to_string(StudyKind kind) noexcept;  // "s1"

struct StudyArm {
  std::string setting;  // "S1-1", as the paper names it
  SeedSetting seeds = SeedSetting::kS1_1;
  Reading reading = Reading::kSharded;
  Precision precision = Precision::kFp32;

  std::string label() const;  // "S1-1-sharded": the arm's folder
  std::string text() const;   // who has which seed, in words
};

// In order of settings within each reading. `precision` is that of S1; S2 has its own.
std::vector<StudyArm> study_arms(StudyKind kind, const std::vector<Reading>& readings, Precision precision);

// Settings that are compared within each reading: neighbours, then first with last.
std::vector<std::pair<std::string, std::string>> study_comparisons(StudyKind kind);

// `count` base seeds from the paper's 42 upwards, each the next whose data orders are all new: no order of any rank,
// setting and epoch of one base seed occurs under another, so that the repetitions are independent. (An epoch of the
// sharded sampler draws from seed + epoch.) Ten or fewer seeds of one epoch are 42, 43, 44, ...
std::vector<std::uint64_t> study_base_seeds(std::size_t count, std::uint32_t workers, std::int64_t epochs);

// Share of the data set that some rank has read, in expectation, after `steps` steps of `samples_per_step` samples per
// rank. Each epoch is a new permutation per seed; expected_unseen (readings.h) has the formula of one.
struct ReadPlan {
  std::int64_t samples = 0;           // of the data set
  std::int64_t samples_per_step = 8;  // per rank: micro-batch x accumulation
  std::int64_t steps = 0;
  std::int64_t steps_per_epoch = 1;
};
double expected_coverage(Reading reading, SeedSetting setting, std::uint32_t workers, const ReadPlan& plan);

// Mean pairwise cosine in the replicated reading, given c, that of ranks on independent batches: 1, (1 - 2/N) + 2c/N,
// c. In S1-2 the N - 1 ranks that share batches have (N - 1)(N - 2) of the N(N - 1) ordered pairs among them.
double replicated_cosine(SeedSetting setting, std::uint32_t workers, double c);

// Expected variance over ranks (1/N form) of any quantity that depends on a rank's batch alone, in units of what
// independent batches give: 0, 2/N, 1. In S1-2 it is (N - 1)/N^2 (x_0 - x_1)^2, with expectation 2 (N - 1)/N^2 sigma^2,
// against (N - 1)/N sigma^2.
double replicated_variance(SeedSetting setting, std::uint32_t workers);

}  // namespace lockstep::train
