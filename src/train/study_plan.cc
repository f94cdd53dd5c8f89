#include "train/study_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace lockstep::train {

const char* to_string(StudyKind kind) noexcept {
  return kind == StudyKind::kS1 ? "s1" : "s2";
}

std::string StudyArm::label() const {
  return fmt::format("{}-{}", setting, to_string(reading));
}

std::string StudyArm::text() const {
  const char* who = seeds == SeedSetting::kS1_1   ? "every rank has the base seed"
                    : seeds == SeedSetting::kS1_2 ? "rank 0 has the base seed + 999, the others the base seed"
                                                  : "rank r has the base seed + 10 r";
  return fmt::format("{}, {}", who, to_string(precision));
}

std::vector<StudyArm> study_arms(StudyKind kind, const std::vector<Reading>& readings, Precision precision) {
  std::vector<StudyArm> arms;
  for (Reading reading : readings) {
    if (kind == StudyKind::kS1) {
      arms.push_back({"S1-1", SeedSetting::kS1_1, reading, precision});
      arms.push_back({"S1-2", SeedSetting::kS1_2, reading, precision});
      arms.push_back({"S1-3", SeedSetting::kS1_3, reading, precision});
    } else {
      arms.push_back({"S2-1", SeedSetting::kS1_1, reading, Precision::kFp32});
      arms.push_back({"S2-2", SeedSetting::kS1_1, reading, Precision::kBf16});
    }
  }
  return arms;
}

std::vector<std::pair<std::string, std::string>> study_comparisons(StudyKind kind) {
  if (kind == StudyKind::kS2) return {{"S2-1", "S2-2"}};
  return {{"S1-1", "S1-2"}, {"S1-2", "S1-3"}, {"S1-1", "S1-3"}};
}

std::vector<std::uint64_t> study_base_seeds(std::size_t count, std::uint32_t workers, std::int64_t epochs) {
  std::vector<std::uint64_t> bases;
  std::set<std::uint64_t> taken;
  for (std::uint64_t base = kPaperSeed; bases.size() < count; ++base) {
    std::set<std::uint64_t> own;
    for (SeedSetting setting : {SeedSetting::kS1_1, SeedSetting::kS1_2, SeedSetting::kS1_3}) {
      for (std::uint64_t seed : rank_seeds(setting, workers, base)) {
        for (std::int64_t epoch = 0; epoch < std::max<std::int64_t>(epochs, 1); ++epoch) {
          own.insert(seed + static_cast<std::uint64_t>(epoch));
        }
      }
    }
    if (std::any_of(own.begin(), own.end(), [&](std::uint64_t seed) { return taken.contains(seed); })) continue;
    taken.merge(own);
    bases.push_back(base);
  }
  return bases;
}

double expected_coverage(Reading reading, SeedSetting setting, std::uint32_t workers, const ReadPlan& plan) {
  const std::vector<std::uint64_t> seeds = rank_seeds(setting, workers);
  const double per_rank = static_cast<double>(plan.samples) / (reading == Reading::kSharded ? workers : 1);
  double unseen = 1;
  for (std::int64_t left = plan.steps; left > 0; left -= plan.steps_per_epoch) {
    const auto read = static_cast<double>(std::min(left, plan.steps_per_epoch) * plan.samples_per_step);
    unseen *= expected_unseen(reading, seeds, std::min(1.0, read / per_rank));
  }
  return 1 - unseen;
}

double replicated_cosine(SeedSetting setting, std::uint32_t workers, double c) {
  if (setting == SeedSetting::kS1_1) return 1;
  if (setting == SeedSetting::kS1_3) return c;
  const double apart = 2.0 / workers;
  return (1 - apart) + apart * c;
}

double replicated_variance(SeedSetting setting, std::uint32_t workers) {
  if (setting == SeedSetting::kS1_1) return 0;
  return setting == SeedSetting::kS1_3 ? 1 : 2.0 / workers;
}

}  // namespace lockstep::train
