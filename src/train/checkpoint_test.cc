#include "train/checkpoint.h"

#include <gtest/gtest.h>

#include "train/scratch_folder.h"

namespace lockstep::train {
namespace {

namespace fs = std::filesystem;

CheckpointState state_at(std::int64_t step) {
  CheckpointState state;
  state.step = step;
  state.epoch = step / 10;
  state.step_in_epoch = step % 10;
  state.identity = {{"workers", 2}};
  state.random = {std::vector<std::byte>(5, std::byte{1}), std::vector<std::byte>(5, std::byte{2})};
  return state;
}

Status write_weights(const fs::path& folder) {
  std::ofstream(folder / "model.safetensors") << "weights";
  return Status::ok();
}

TEST(Checkpoint, ComesBackAsItWasWritten) {
  const ScratchFolder scratch;
  CheckpointFolder folder = CheckpointFolder::open(scratch / "ckpt").value();
  ASSERT_TRUE(folder.write(state_at(12), write_weights).is_ok());
  ASSERT_EQ(folder.list().size(), 1U);
  const CheckpointState read = read_checkpoint_state(folder.list()[0]).value();
  EXPECT_EQ(read.step, 12);
  EXPECT_EQ(read.epoch, 1);
  EXPECT_EQ(read.step_in_epoch, 2);
  EXPECT_EQ(read.identity, state_at(12).identity);
  EXPECT_EQ(read.random, state_at(12).random);
  EXPECT_TRUE(fs::exists(folder.list()[0] / "model.safetensors"));
}

TEST(Checkpoint, TheLastTwoAreKeptNewestFirst) {
  const ScratchFolder scratch;
  CheckpointFolder folder = CheckpointFolder::open(scratch / "ckpt").value();
  for (std::int64_t step : {1, 2, 9, 10}) ASSERT_TRUE(folder.write(state_at(step), write_weights).is_ok());
  ASSERT_EQ(folder.list().size(), 2U);
  EXPECT_EQ(folder.list()[0].filename(), "step-00000010");
  EXPECT_EQ(folder.list()[1].filename(), "step-00000009");
}

TEST(Checkpoint, AFailureWhileWritingLeavesTheOlderOnesAndNothingElse) {
  const ScratchFolder scratch;
  CheckpointFolder folder = CheckpointFolder::open(scratch / "ckpt").value();
  ASSERT_TRUE(folder.write(state_at(1), write_weights).is_ok());
  const Status status = folder.write(state_at(2), [](const fs::path& at) -> Status {
    std::ofstream(at / "model.safetensors") << "half";
    return {StatusCode::kIo, "disk full"};
  });
  EXPECT_EQ(status.code(), StatusCode::kIo);
  EXPECT_NE(status.message().find("disk full"), std::string::npos);
  ASSERT_EQ(std::distance(fs::directory_iterator(scratch / "ckpt"), {}), 1);
  EXPECT_EQ(read_checkpoint_state(folder.list()[0])->step, 1);
}

TEST(Checkpoint, WhatAKilledWriterLeftIsSweptAway) {
  const ScratchFolder scratch;
  fs::create_directories(scratch / "ckpt/.writing-123");
  std::ofstream(scratch / "ckpt/.writing-123/model.safetensors") << "half";
  const CheckpointFolder folder = CheckpointFolder::open(scratch / "ckpt").value();
  EXPECT_TRUE(folder.list().empty());
  EXPECT_FALSE(fs::exists(scratch / "ckpt/.writing-123"));
}

TEST(Checkpoint, OneThatLiesIsRefused) {
  const ScratchFolder scratch;
  CheckpointFolder folder = CheckpointFolder::open(scratch / "ckpt").value();
  ASSERT_TRUE(folder.write(state_at(3), write_weights).is_ok());
  const fs::path at = folder.list()[0];
  const auto with_state = [&](const std::string& text) {
    std::ofstream(at / "state.json", std::ios::trunc) << text;
    return read_checkpoint_state(at);
  };
  const std::string rest = R"("epoch": 0, "step_in_epoch": 0, "generators": 0, "identity": {}})";
  EXPECT_TRUE(with_state(R"({"version": 1, "step": 3, )" + rest).has_value());
  EXPECT_EQ(with_state(R"({"version": 2, "step": 3, )" + rest).error().code(), StatusCode::kUnsupported);
  EXPECT_FALSE(with_state(R"({"version": 1, "step": -3, )" + rest).has_value());
  EXPECT_FALSE(with_state(R"({"version": 1, "step": "3", )" + rest).has_value());
  EXPECT_FALSE(with_state(R"({"version": 1)").has_value());
  EXPECT_FALSE(with_state("").has_value());
  EXPECT_FALSE(with_state(R"({"version": 1, "step": 1, "epoch": 0, "step_in_epoch": 0, "generators": 3,
                              "identity": {}})")
                   .has_value())
      << "the file has two generators";
  fs::remove(at / "state.json");
  EXPECT_FALSE(read_checkpoint_state(at).has_value());
}

}  // namespace
}  // namespace lockstep::train
