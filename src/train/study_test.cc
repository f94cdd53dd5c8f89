#include "train/study.h"

#include <gtest/gtest.h>

#include <set>

#include "train/study_analysis.h"
#include "train/study_conclusion.h"
#include "train/study_fixture.h"
#include "train/study_oracle.h"

namespace lockstep::train {
namespace {

constexpr std::int64_t kSamples = 1280;  // 20 steps of 64 per sharded epoch

// One study for the tests that only look at it.
const StudyOutcome& toy_outcome() {
  static const StudyOutcome outcome = [] {
    const ToyTraining toy(kSamples, 8, 5);
    return run_study(toy_study(5, kSamples), toy.trainer()).value();
  }();
  return outcome;
}

const StudyAnalysis& toy_analysis() {
  static const StudyAnalysis analysis = analyse_study(toy_outcome());
  return analysis;
}

double value(const char* setting, Reading reading, const char* metric) {
  return *toy_analysis().find(setting, reading)->find(metric)->interval.mean;
}

TEST(Study, TrainsEveryArmOncePerSeed) {
  const StudyOutcome& outcome = toy_outcome();
  EXPECT_TRUE(outcome.error.is_ok()) << outcome.error.message();
  EXPECT_EQ(outcome.options.steps, 20);  // one sharded epoch
  ASSERT_EQ(outcome.runs.size(), 30U);
  std::set<std::string> names;
  for (const StudyRun& run : outcome.runs) {
    EXPECT_TRUE(run.complete) << run.info.name();
    EXPECT_EQ(run.steps.size(), 20U);
    names.insert(run.info.name());
  }
  EXPECT_EQ(names.size(), 30U);
  EXPECT_TRUE(names.contains("S1-3-replicated, seed 46"));
}

TEST(Study, ReplicatedReadingMeetsItsExactOracle) {
  EXPECT_NEAR(value("S1-1", Reading::kReplicated, "cosine_mean"), 1, 1e-6);
  EXPECT_EQ(value("S1-1", Reading::kReplicated, "loss_std"), 0);
  EXPECT_EQ(value("S1-1", Reading::kReplicated, "norm_std"), 0);
  const double c = value("S1-3", Reading::kReplicated, "cosine_mean");
  EXPECT_GT(c, 0.05);
  EXPECT_LT(c, 0.9);
  std::size_t replicated = 0;
  for (const OracleCheck& check : toy_analysis().oracle) {
    ASSERT_TRUE(check.tolerance);
    EXPECT_TRUE(check.agrees()) << check.setting << " " << to_string(check.reading) << " " << check.metric << ": "
                                << check.measured << ", expected " << check.expected << " +- " << *check.tolerance;
    // Tolerances that would let anything pass would make this no test.
    if (check.metric == "cosine_mean" && check.setting == "S1-2") {
      EXPECT_LT(*check.tolerance, 0.05);
    }
    replicated += check.reading == Reading::kReplicated ? 1 : 0;
  }
  EXPECT_EQ(replicated, 11U);
}

TEST(Study, OracleNoticesAReplicaThatIsNotOne) {
  StudyOutcome outcome = toy_outcome();
  for (StudyRun& run : outcome.runs) {
    if (run.info.arm.label() == "S1-2-replicated") run.metrics["cosine_mean"] -= 0.05;
  }
  std::size_t failed = 0;
  for (const OracleCheck& check : check_oracle(outcome)) failed += check.agrees() ? 0 : 1;
  EXPECT_EQ(failed, 2U);  // both ways to predict S1-2
}

TEST(Study, ShardedSeedsMoveNoMetricButLoseCoverage) {
  for (const Comparison& comparison : toy_analysis().comparisons) {
    if (comparison.reading != Reading::kSharded || comparison.expected == AuthorsExpect::kNone) continue;
    EXPECT_EQ(comparison.found(), "none") << comparison.metric << " " << comparison.from << " " << comparison.to;
  }
  EXPECT_DOUBLE_EQ(value("S1-1", Reading::kSharded, "coverage"), 1);
  EXPECT_NEAR(value("S1-2", Reading::kSharded, "coverage"), 1 - 0.109375, 0.01);
  EXPECT_NEAR(value("S1-3", Reading::kSharded, "coverage"), 1 - 0.343609, 0.015);
  EXPECT_EQ(toy_analysis().find("coverage", Reading::kSharded, "S1-1", "S1-3")->found(), "fall");
  EXPECT_EQ(toy_analysis().find("overlap", Reading::kSharded, "S1-1", "S1-3")->found(), "rise");
}

TEST(Study, ReplicatedSeedsMoveTheMetricsAsTheAuthorsExpect) {
  for (const char* metric : {"loss_std", "loss_range", "norm_std", "norm_cv"}) {
    EXPECT_EQ(toy_analysis().find(metric, Reading::kReplicated, "S1-1", "S1-3")->found(), "rise") << metric;
  }
  for (const char* metric : {"cosine_mean", "cosine_pooled"}) {
    EXPECT_EQ(toy_analysis().find(metric, Reading::kReplicated, "S1-1", "S1-3")->found(), "fall") << metric;
  }
}

TEST(Study, ConclusionSaysWhatDiffersFromTheAuthorsExpectation) {
  const std::vector<std::string> paragraphs = conclude(toy_outcome(), toy_analysis());
  ASSERT_GE(paragraphs.size(), 5U);
  EXPECT_NE(paragraphs[0].find("none of the paper's metrics moves"), std::string::npos) << paragraphs[0];
  EXPECT_NE(paragraphs[0].find("S1-3 leaves 34."), std::string::npos) << paragraphs[0];
  EXPECT_NE(paragraphs[1].find("moved as the authors expect"), std::string::npos) << paragraphs[1];
  EXPECT_NE(paragraphs[2].find("Averaged loss"), std::string::npos) << paragraphs[2];
  EXPECT_NE(paragraphs.back().find("5 seeds"), std::string::npos) << paragraphs.back();
}

TEST(Study, ConclusionFollowsTheNumbers) {
  StudyOutcome outcome = toy_outcome();
  for (StudyRun& run : outcome.runs) {
    if (run.info.arm.label() == "S1-3-sharded") run.metrics["loss_std"] *= 3;
    if (run.info.arm.label() == "S1-3-replicated") run.metrics["final_loss"] += 100;
  }
  const std::vector<std::string> paragraphs = conclude(outcome, analyse_study(outcome));
  EXPECT_NE(paragraphs[0].find("loss_std moved from S1-1 to S1-3"), std::string::npos) << paragraphs[0];
  EXPECT_NE(paragraphs[2].find("replicated: it differs between"), std::string::npos) << paragraphs[2];
}

TEST(Study, RunsAtTheSameTimeGiveTheSameNumbers) {
  const ToyTraining toy(kSamples, 8, 5);
  StudyOptions options = toy_study(1, kSamples);
  options.jobs = 3;
  std::vector<std::string> finished;
  StudyHooks hooks;
  hooks.finished = [&](const StudyRun& run) {
    finished.push_back(run.info.name());
    return Status::ok();
  };
  const StudyOutcome outcome = run_study(options, toy.trainer(), hooks).value();
  ASSERT_EQ(outcome.runs.size(), 6U);
  for (std::size_t i = 0; i < outcome.runs.size(); ++i) {
    EXPECT_EQ(outcome.runs[i].info.name(), toy_outcome().runs[i].info.name());
    EXPECT_EQ(finished[i], outcome.runs[i].info.name());
    EXPECT_EQ(outcome.runs[i].metrics, toy_outcome().runs[i].metrics) << outcome.runs[i].info.name();
  }
}

TEST(Study, StopKeepsWhatIsComplete) {
  const ToyTraining toy(kSamples, 8, 5);
  std::atomic<bool> stop = false;
  StudyHooks hooks;
  hooks.stop = &stop;
  hooks.progress = [&](const StudyProgress& progress) {
    if (progress.share > 8.3 / 18) stop = true;  // in the third arm of the second seed
  };
  const StudyOutcome outcome = run_study(toy_study(3, kSamples), toy.trainer(), hooks).value();
  EXPECT_TRUE(outcome.stopped);
  EXPECT_TRUE(outcome.error.is_ok()) << outcome.error.message();
  ASSERT_EQ(outcome.runs.size(), 9U);
  EXPECT_TRUE(outcome.runs[7].complete);
  EXPECT_FALSE(outcome.runs[8].complete);
  EXPECT_FALSE(outcome.runs[8].steps.empty());
  const StudyAnalysis analysis = analyse_study(outcome);
  EXPECT_EQ(analysis.find("S1-1", Reading::kSharded)->seeds.size(), 2U);
  EXPECT_EQ(analysis.find("S1-3", Reading::kSharded)->seeds.size(), 1U);
  EXPECT_TRUE(analysis.find("loss_std", Reading::kSharded, "S1-1", "S1-2")->paired.p_value);
  EXPECT_FALSE(analysis.find("loss_std", Reading::kSharded, "S1-1", "S1-3")->paired.p_value);
  EXPECT_NE(conclude(outcome, analysis).back().find("stopped early"), std::string::npos);
}

TEST(Study, StoppedBeforeAnyRunConcludesNothing) {
  const ToyTraining toy(kSamples, 8, 5);
  const std::atomic<bool> stop = true;
  StudyHooks hooks;
  hooks.stop = &stop;
  const StudyOutcome outcome = run_study(toy_study(2, kSamples), toy.trainer(), hooks).value();
  EXPECT_TRUE(outcome.stopped);
  EXPECT_TRUE(outcome.runs.empty());
  EXPECT_EQ(conclude(outcome, analyse_study(outcome)).size(), 1U);
}

TEST(Study, FailedRunEndsTheStudyAndIsNamed) {
  const ToyTraining toy(kSamples, 8, 5);
  int runs = 0;
  const StudyTrainer trainer = [&](const TrainOptions& options, const TrainHooks& hooks) -> Result<TrainResult> {
    if (++runs == 3) return Status(StatusCode::kIo, "the disk is full");
    return toy.train(options, hooks);
  };
  const StudyOutcome outcome = run_study(toy_study(2, kSamples), trainer).value();
  EXPECT_EQ(outcome.error.code(), StatusCode::kIo);
  EXPECT_EQ(outcome.error.message(), "S1-3-sharded, seed 42: the disk is full");
  EXPECT_EQ(runs, 3);
  EXPECT_EQ(analyse_study(outcome).find("S1-2", Reading::kSharded)->seeds.size(), 1U);
}

TEST(Study, RunWithUnanalysedStepsIsNoObservation) {
  const ToyTraining toy(kSamples, 8, 5);
  const StudyTrainer trainer = [&](const TrainOptions& options, const TrainHooks& hooks) {
    TrainOptions shorter = options;
    shorter.max_steps = options.max_steps - 1;
    return toy.train(shorter, hooks);
  };
  const StudyOutcome outcome = run_study(toy_study(1, kSamples), trainer).value();
  EXPECT_EQ(outcome.error.code(), StatusCode::kUnavailable);
  EXPECT_NE(outcome.error.message().find("19 of 20 steps"), std::string::npos) << outcome.error.message();
}

TEST(Study, BadPlansAreRefusedByName) {
  const ToyTraining toy(kSamples, 8, 5);
  StudyOptions options = toy_study(2, kSamples);
  options.workers = 1;
  EXPECT_FALSE(run_study(options, toy.trainer()));
  options = toy_study(0, kSamples);
  EXPECT_FALSE(run_study(options, toy.trainer()));
  options = toy_study(2, 7);  // fewer samples than workers
  const auto refused = run_study(options, toy.trainer());
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message().find("7 samples"), std::string::npos) << refused.error().message();
}

TEST(MeasureSteps, PooledCosineIsARatioOfMeans) {
  StudyStep large, small;
  large.ranks = {{0, 1.0, 10.0, std::nullopt, 0}, {1, 1.0, 10.0, std::nullopt, 0}};
  large.cosine_pooled = 0.5;
  small.ranks = {{0, 1.0, 1.0, std::nullopt, 0}, {1, 1.0, 1.0, std::nullopt, 0}};
  small.cosine_pooled = -0.5;
  const std::vector<StudyStep> steps = {large, small};
  const RunMetrics metrics = measure_steps(steps, 8);
  const double c = (0.5 * 100 - 0.5 * 1) / 101;
  EXPECT_DOUBLE_EQ(metrics.at("cosine_pooled"), c);
  EXPECT_DOUBLE_EQ(metrics.at("noise_scale"), 8 * (1 / c - 1));
  EXPECT_FALSE(metrics.contains("loss_std"));  // no verdict is absent, not zero
}

TEST(MeasureSteps, SketchesStandInWhereNothingExactWasAskedFor) {
  StudyStep step;
  step.cosine_sketch = 0.3;
  EXPECT_EQ(measure_steps(std::vector{step}, 8).at("cosine_mean"), 0.3);
  step.cosine_exact = 0.31;
  EXPECT_EQ(measure_steps(std::vector{step}, 8).at("cosine_mean"), 0.31);
  EXPECT_EQ(measure_steps(std::vector{step}, 8).at("cosine_sketch"), 0.3);
}

}  // namespace
}  // namespace lockstep::train
