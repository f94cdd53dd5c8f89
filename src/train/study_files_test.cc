#include "train/study_files.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "train/scratch_folder.h"
#include "train/study_conclusion.h"
#include "train/study_fixture.h"
#include "train/study_json.h"

namespace lockstep::train {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kSamples = 256;  // four steps of 64

StudyOutcome small_study(std::size_t seeds, const StudyHooks& hooks = {}, StudyKind kind = StudyKind::kS1) {
  const ToyTraining toy(kSamples, 8, 9);
  StudyOptions options = toy_study(seeds, kSamples);
  options.kind = kind;
  return run_study(options, toy.trainer(), hooks).value();
}

nlohmann::json document(const StudyOutcome& outcome) {
  const StudyAnalysis analysis = analyse_study(outcome);
  return study_json(outcome, analysis, conclude(outcome, analysis), {"2026-01-31T09:15:02Z", "toy", "made up", 48});
}

std::vector<std::string> lines_of(const fs::path& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

TEST(StudyJson, HasTheStableFields) {
  const nlohmann::json json = document(small_study(2));
  EXPECT_EQ(json["version"], 1);
  EXPECT_TRUE(json["conclusion"].is_string());
  ASSERT_EQ(json["settings"].size(), 6U);
  for (const auto& setting : json["settings"]) {
    EXPECT_TRUE(setting["setting"].is_string());
    EXPECT_TRUE(setting["reading"] == "sharded" || setting["reading"] == "replicated");
    EXPECT_EQ(setting["seeds"], (nlohmann::json{42, 43}));
    for (const char* name : {"loss_std", "loss_range", "norm_std", "norm_cv", "cosine_mean", "cosine_pooled",
                             "coverage", "overlap", "final_loss"}) {
      ASSERT_TRUE(setting["metrics"].contains(name)) << name;
      for (const char* part : {"mean", "low", "high"}) {
        EXPECT_TRUE(setting["metrics"][name][part].is_number()) << name << " " << part;
      }
    }
  }
  ASSERT_EQ(json["comparisons"].size(), 9U * 3 * 2);
  for (const auto& comparison : json["comparisons"]) {
    for (const char* part : {"metric", "reading", "from", "to"}) EXPECT_TRUE(comparison[part].is_string()) << part;
    for (const char* part : {"difference", "p_value"}) EXPECT_TRUE(comparison[part].is_number()) << part;
    EXPECT_GE(comparison["p_value"], 0);
    EXPECT_LE(comparison["p_value"], 1);
  }
  EXPECT_EQ(json["study"]["readings"].size(), 2U);
  EXPECT_EQ(json["study"]["readings"][0]["settings"][0]["curve"]["loss_mean"].size(), 4U);
  EXPECT_TRUE(json["study"]["conclusion"].is_array());
}

TEST(StudyJson, OneSeedHasMeansAndNullsButNoVerdict) {
  const nlohmann::json json = document(small_study(1));
  EXPECT_TRUE(json["settings"][0]["metrics"]["loss_std"]["mean"].is_number());
  EXPECT_TRUE(json["settings"][0]["metrics"]["loss_std"]["low"].is_null());
  EXPECT_TRUE(json["comparisons"][0]["p_value"].is_null());
  EXPECT_TRUE(json["comparisons"][0]["found"].is_null());
}

TEST(StudyJson, OfS2ComparesThePrecisions) {
  const nlohmann::json json = document(small_study(2, {}, StudyKind::kS2));
  ASSERT_EQ(json["settings"].size(), 4U);
  EXPECT_EQ(json["settings"][0]["setting"], "S2-1");
  EXPECT_EQ(json["settings"][1]["precision"], "bf16");
  EXPECT_EQ(json["comparisons"].size(), 9U * 2);
  EXPECT_EQ(json["comparisons"][0]["difference"], 0.0);  // the toy knows no precision
  EXPECT_EQ(json["comparisons"][0]["p_value"], 1.0);
  EXPECT_NE(json["conclusion"].get<std::string>().find("no metric differs"), std::string::npos);
}

TEST(StudyFiles, HoldEveryStepAndRankInTheOrderOfThePlan) {
  const ScratchFolder scratch;
  const fs::path out = scratch.path() / "study";
  StudyFiles files = std::move(StudyFiles::create(out)).value();
  StudyHooks hooks;
  hooks.finished = [&](const StudyRun& run) { return files.add(run); };
  const StudyOutcome outcome = small_study(2, hooks);
  ASSERT_TRUE(outcome.error.is_ok()) << outcome.error.message();
  EXPECT_FALSE(fs::exists(out / "steps.csv"));  // not before it is whole
  ASSERT_TRUE(files.finish(document(outcome).dump()));

  const std::vector<std::string> lines = lines_of(out / "steps.csv");
  ASSERT_EQ(lines.size(), 1U + 6 * 2 * 4 * 8);
  const auto columns = std::count(lines[0].begin(), lines[0].end(), ',');
  for (const std::string& line : lines) EXPECT_EQ(std::count(line.begin(), line.end(), ','), columns) << line;
  EXPECT_EQ(lines[1].substr(0, 27), "S1-1,sharded,fp32,42,0,0,42");
  EXPECT_EQ(lines.back().substr(0, 32), "S1-3,replicated,fp32,43,3,7,113,");
  for (const char* arm :
       {"S1-1-sharded", "S1-2-sharded", "S1-3-sharded", "S1-1-replicated", "S1-2-replicated", "S1-3-replicated"}) {
    EXPECT_EQ(lines_of(out / arm / "metrics.csv").size(), 3U) << arm;
  }
  std::ifstream summary(out / "summary.json");
  EXPECT_EQ(nlohmann::json::parse(summary)["version"], 1);
  EXPECT_FALSE(fs::exists(out / "steps.csv.part"));
}

TEST(StudyFiles, EachRunHasAFolderOfItsOwn) {
  const ScratchFolder scratch;
  const StudyFiles files = std::move(StudyFiles::create(scratch.path() / "study")).value();
  StudyRunInfo info;
  info.arm = study_arms(StudyKind::kS1, {Reading::kSharded}, Precision::kFp32)[1];
  info.base_seed = 42;
  EXPECT_EQ(files.run_folder(info), scratch.path() / "study" / "S1-2-sharded");
  info.base_seed = 44;
  EXPECT_EQ(files.run_folder(info), scratch.path() / "study" / "S1-2-sharded" / "seed-44");
}

TEST(StudyFiles, ReplaceAnEarlierStudyAndNothingElse) {
  const ScratchFolder scratch;
  const fs::path out = scratch.path() / "study";
  {
    StudyFiles files = std::move(StudyFiles::create(out)).value();
    ASSERT_TRUE(files.finish("{}"));
  }
  fs::create_directories(out / "S1-1-sharded");
  std::ofstream(out / "S1-1-sharded" / "run.sqlite") << "old";
  std::ofstream(out / "notes.txt") << "mine";
  ASSERT_TRUE(StudyFiles::create(out));
  EXPECT_FALSE(fs::exists(out / "S1-1-sharded"));
  EXPECT_FALSE(fs::exists(out / "summary.json"));
  EXPECT_TRUE(fs::exists(out / "notes.txt"));
}

TEST(StudyFiles, RefuseAFolderOfSomethingElse) {
  const ScratchFolder scratch;
  std::ofstream(scratch.path() / "thesis.tex") << "precious";
  const auto files = StudyFiles::create(scratch.path());
  ASSERT_FALSE(files);
  EXPECT_NE(files.error().message().find("not the output of a study"), std::string::npos);
  EXPECT_TRUE(fs::exists(scratch.path() / "thesis.tex"));
}

}  // namespace
}  // namespace lockstep::train
