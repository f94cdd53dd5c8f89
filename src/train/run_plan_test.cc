#include "train/run_plan.h"

#include <gtest/gtest.h>

#include "train/toy_material.h"

namespace lockstep::train {
namespace {

Material rows_only(std::int64_t rows) {
  Material material;
  material.data = toy_data(rows, 1);
  return material;
}

TrainOptions batches(std::int64_t micro_batch, std::int64_t accumulation) {
  TrainOptions options;
  options.batch.micro_batch = micro_batch;
  options.batch.accumulation = accumulation;
  return options;
}

TEST(RunPlan, StepsAreWholeEpochsOrWhatWasAskedFor) {
  const Material material = rows_only(100);
  TrainOptions options = batches(2, 3);  // 25 per rank: 4 steps
  EXPECT_EQ(planned_steps(material, options, 4).value(), 4);
  options.epochs = 3;
  EXPECT_EQ(planned_steps(material, options, 4).value(), 12);
  options.max_steps = 5;
  EXPECT_EQ(planned_steps(material, options, 4).value(), 5);
}

TEST(RunPlan, WhatCannotBeTrainedIsRefusedWithTheReason) {
  const auto message = [](std::int64_t rows, const TrainOptions& options, std::uint32_t world) {
    const auto steps = planned_steps(rows_only(rows), options, world);
    return steps ? "accepted" : steps.error().message();
  };
  EXPECT_NE(message(7, batches(1, 1), 8).find("8 workers but only 7 samples"), std::string::npos);
  EXPECT_NE(message(16, batches(2, 4), 8).find("fewer than one step"), std::string::npos);
  EXPECT_NE(message(0, batches(1, 1), 1).find("no samples"), std::string::npos);
  TrainOptions seeds = batches(1, 1);
  seeds.seeds = {1, 2, 3};
  EXPECT_NE(message(64, seeds, 4).find("3 seeds for 4 workers"), std::string::npos);
  TrainOptions dropout = batches(1, 1);
  dropout.dropout = 1.0;
  EXPECT_NE(message(64, dropout, 4).find("dropout"), std::string::npos);
  TrainOptions clip = batches(1, 1);
  clip.clip = -1;
  EXPECT_NE(message(64, clip, 4).find("clip"), std::string::npos);
}

TEST(RunPlan, LaterEpochsAreOtherOrdersOfTheSameSamples) {
  const Material material = rows_only(64);
  TrainOptions options = batches(2, 2);
  options.epochs = 2;
  const RunPlan plan = RunPlan::make(material, options, 4).value();
  EXPECT_EQ(plan.total_steps(), 8);
  EXPECT_EQ(plan.epoch_of(5), 1);
  EXPECT_EQ(plan.step_in_epoch(5), 1);
  const MicroBatches first = plan.epoch_batches(0, 0).value(), second = plan.epoch_batches(0, 1).value();
  const auto a = first.read_after(4), b = second.read_after(4);
  EXPECT_FALSE(std::equal(a.begin(), a.end(), b.begin(), b.end()));
}

TEST(RunPlan, CoverageCountsWhatTheSettingLeavesUnread) {
  const Material material = rows_only(64);
  TrainOptions options = batches(2, 2);
  EXPECT_EQ(RunPlan::make(material, options, 4)->coverage_after(4)->coverage, 1.0);
  EXPECT_EQ(RunPlan::make(material, options, 4)->coverage_after(1)->coverage, 0.25);
  options.reading = Reading::kReplicated;
  const CoverageStats replicated = RunPlan::make(material, options, 4)->coverage_after(4).value();
  EXPECT_EQ(replicated.coverage, 0.25) << "four workers on the same sixteen samples";
  EXPECT_EQ(replicated.overlap, 1.0);
}

TEST(RunPlan, IdentitiesNameWhatDiffers) {
  const Material material = rows_only(64);
  TrainOptions options = batches(2, 2);
  const RunPlan a = RunPlan::make(material, options, 4).value();
  EXPECT_EQ(identity_difference(a.identity(), a.identity()), "");
  options.learning_rate = 1e-3;
  options.seeds = {1, 2, 3, 4};
  const RunPlan b = RunPlan::make(material, options, 4).value();
  const std::string difference = identity_difference(b.identity(), a.identity());
  EXPECT_NE(difference.find("learning_rate is 0.001, was 5e-05"), std::string::npos) << difference;
  EXPECT_NE(difference.find("seeds is [1,2,3,4], was [42,42,42,42]"), std::string::npos) << difference;
  EXPECT_NE(a.identity_hash(), b.identity_hash());
  EXPECT_NE(identity_difference(a.identity(), nlohmann::json::object()), "");
}

TEST(RunPlan, ThreadsAndWatchingAreNoPartOfTheIdentity) {
  const Material material = rows_only(64);
  TrainOptions options = batches(2, 2);
  const std::uint64_t before = RunPlan::make(material, options, 4)->identity_hash();
  options.threads = 3;
  options.watch.enabled = false;
  EXPECT_EQ(RunPlan::make(material, options, 4)->identity_hash(), before);
}

}  // namespace
}  // namespace lockstep::train
