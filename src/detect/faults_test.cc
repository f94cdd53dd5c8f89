// Every class of fault at random ranks, onsets and sizes: caught in time, right cause, right ranks, nothing else.
#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>

#include "detect/causes.h"
#include "detect/diagnosis.h"
#include "detect/scenarios.h"

namespace lockstep::detect {
namespace {

Draw draw_case(std::uint32_t workers, std::mt19937_64& random) {
  Draw draw;
  draw.workers = workers;
  draw.rank = static_cast<std::uint32_t>(random() % workers);
  draw.other = static_cast<std::uint32_t>((draw.rank + 1 + random() % (workers - 1)) % workers);
  draw.onset = random() % 60;
  draw.size = std::uniform_real_distribution<double>(0, 1)(random);
  return draw;
}

struct Verdict {
  std::optional<std::uint64_t> found;  // step
  Ranks first_ranks;
  std::vector<Finding> findings;
};

Verdict run(const Case& made, const char* cause) {
  Simulation simulation(made.options, made.hook);
  StatsEngine stats;
  Diagnosis diagnosis;
  Verdict verdict;
  for (std::uint64_t i = 0; i < made.steps; ++i) {
    const Step step = simulation.next();
    diagnosis.add(step, stats.update(step));
    for (const Finding& finding : diagnosis.findings()) {
      if (verdict.found || finding.cause != cause) continue;
      verdict.found = step.step;
      verdict.first_ranks = finding.ranks;
    }
  }
  verdict.findings = diagnosis.findings();
  return verdict;
}

std::string describe(const std::vector<Finding>& findings) {
  std::string text;
  for (const Finding& finding : findings) {
    text += finding.cause + " " + testing::PrintToString(finding.ranks) + " step " +
            std::to_string(finding.first_step) + ": " + finding.message + " " + finding.evidence + "\n";
  }
  return text;
}

class Faults : public testing::TestWithParam<std::uint32_t> {};

// Seeds: fixed by default so that a failure can be repeated; LOCKSTEP_TEST_SEED chooses another.
std::uint64_t first_seed() {
  const char* text = std::getenv("LOCKSTEP_TEST_SEED");
  return text == nullptr ? 1 : std::strtoull(text, nullptr, 10);
}

TEST_P(Faults, CertainOnesAreAlwaysCaughtInTimeWithCauseAndRanks) {
  for (const Scenario& scenario : fault_scenarios()) {
    if (!scenario.certain || GetParam() < scenario.least_workers) continue;
    for (std::uint64_t seed = first_seed(); seed < first_seed() + 4; ++seed) {
      SCOPED_TRACE(testing::Message() << scenario.name << ", " << GetParam() << " workers, seed " << seed);
      std::mt19937_64 random(seed * 1000 + GetParam());
      SimulationOptions base;
      base.workers = GetParam();
      base.seed = random();
      const Case made = scenario.make(draw_case(GetParam(), random), base);
      const Verdict verdict = run(made, scenario.cause);
      ASSERT_TRUE(verdict.found) << "known from step " << made.known << "\n" << describe(verdict.findings);
      EXPECT_LE(*verdict.found, made.known + made.patience);
      EXPECT_GE(*verdict.found, made.known);
      EXPECT_EQ(verdict.first_ranks, made.ranks) << describe(verdict.findings);
      ASSERT_EQ(verdict.findings.size(), 1U) << describe(verdict.findings);
      EXPECT_EQ(verdict.findings[0].cause, scenario.cause) << describe(verdict.findings);
      EXPECT_EQ(verdict.findings[0].ranks, made.ranks);
      EXPECT_EQ(verdict.findings[0].certainty, Certainty::kCertain);
      EXPECT_FALSE(verdict.findings[0].message.empty());
      EXPECT_FALSE(verdict.findings[0].remedy.empty());
    }
  }
}

TEST_P(Faults, StatisticalOnesAreCaughtAndNamed) {
  for (const Scenario& scenario : fault_scenarios()) {
    if (scenario.certain || GetParam() < scenario.least_workers) continue;
    int caught = 0;
    constexpr int kCases = 20;
    for (int i = 0; i < kCases; ++i) {
      const std::uint64_t seed = first_seed() + static_cast<std::uint64_t>(i);
      SCOPED_TRACE(testing::Message() << scenario.name << ", " << GetParam() << " workers, seed " << seed);
      std::mt19937_64 random(seed * 1000 + GetParam());
      SimulationOptions base;
      base.workers = GetParam();
      base.seed = random();
      const Case made = scenario.make(draw_case(GetParam(), random), base);
      const Verdict verdict = run(made, scenario.cause);
      if (!verdict.found || *verdict.found > made.known + made.patience) continue;
      ++caught;
      EXPECT_EQ(verdict.first_ranks, made.ranks) << describe(verdict.findings);
      ASSERT_EQ(verdict.findings.size(), 1U) << describe(verdict.findings);
      EXPECT_EQ(verdict.findings[0].cause, scenario.cause) << describe(verdict.findings);
    }
    EXPECT_GE(caught, kCases - 2) << scenario.name << " with " << GetParam() << " workers";
  }
}

INSTANTIATE_TEST_SUITE_P(Workers, Faults, testing::Values(2, 4, 8, 16));

}  // namespace
}  // namespace lockstep::detect
