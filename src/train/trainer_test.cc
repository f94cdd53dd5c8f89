// The trainer on the virtual engine. Equalities between runs are of bits, not within tolerances, wherever the
// arithmetic is the same.
#include "train/trainer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <mutex>

#include "train/scratch_folder.h"
#include "train/toy_material.h"

namespace lockstep::train {
namespace {

TrainOptions toy_options(std::int64_t steps = 6) {
  TrainOptions options;
  options.batch = {2, 2, PartialStep::kDrop};
  options.max_steps = steps;
  options.learning_rate = 1e-2;
  options.precision = Precision::kFp32;
  options.deterministic = true;
  options.threads = 1;
  options.watch.wait_for_analysis = true;
  options.watch.monitor.layout.k = kMinSketchDim;
  return options;
}

Result<TrainResult> run(const Material& material, const TrainOptions& options, std::uint32_t workers,
                        const TrainHooks& hooks = {}) {
  auto engine = make_virtual_engine(workers);
  return train(material, options, **engine, hooks);
}

struct Steps : Observer {
  void on_step(const Step& step, const StepStats& stats) override {
    const std::lock_guard lock(mutex);
    steps.push_back(step);
    all.push_back(stats);
  }
  std::mutex mutex;
  std::vector<Step> steps;
  std::vector<StepStats> all;
};

TEST(Trainer, LearnsWhatThereIsToLearn) {
  Material material = toy_material(256);
  material.eval = toy_data(32, 99);
  const TrainResult result = run(material, toy_options(60), 4).value();
  EXPECT_EQ(result.steps.size(), 60U);
  EXPECT_FALSE(result.stopped);
  EXPECT_LT(result.final_loss, 0.5 * result.steps[0].loss);
  EXPECT_NEAR(*result.eval_loss_start, std::log(kToyVocab), 1.0);
  EXPECT_LT(*result.eval_loss, 0.5 * *result.eval_loss_start);
  EXPECT_GT(result.tokens_per_second(), 0);
  EXPECT_EQ(result.coverage.coverage, 1.0) << "60 steps are several epochs";
}

TEST(Trainer, OneWorkerTrains) {
  const TrainResult result = run(toy_material(), toy_options(), 1).value();
  EXPECT_EQ(result.steps.size(), 6U);
  EXPECT_EQ(result.steps[0].rank_loss.size(), 1U);
  EXPECT_EQ(result.steps[0].loss, result.steps[0].rank_loss[0]);
}

TEST(Trainer, MoreWorkersThanSamplesIsAClearError) {
  const auto result = run(toy_material(3), toy_options(), 4);
  ASSERT_FALSE(result.has_value());
  EXPECT_NE(result.error().message().find("4 workers but only 3 samples"), std::string::npos);
}

// The mean of N equal gradients is that gradient, to the bit when N is a power of two.
TEST(Trainer, ReplicasOnTheSameBatchesTrainAsOneWorker) {
  const Material material = toy_material();
  TrainOptions options = toy_options(8);
  options.reading = Reading::kReplicated;
  const TrainResult one = run(material, options, 1).value(), four = run(material, options, 4).value();
  EXPECT_EQ(one.weights_hash, four.weights_hash);
  for (std::size_t i = 0; i < one.steps.size(); ++i) {
    EXPECT_EQ(one.steps[i].gradient_norm, four.steps[i].gradient_norm);
    for (double loss : four.steps[i].rank_loss) EXPECT_EQ(loss, one.steps[i].loss);
  }
}

TEST(Trainer, AMonitorChangesNoBitOfTheTraining) {
  const Material material = toy_material();
  TrainOptions options = toy_options();
  options.watch.monitor.exact_cosine_interval = 1;
  options.watch.monitor.state_interval = 1;
  const TrainResult watched = run(material, options, 3).value();
  options.watch.enabled = false;
  const TrainResult alone = run(material, options, 3).value();
  EXPECT_EQ(watched.weights_hash, alone.weights_hash);
  EXPECT_EQ(watched.monitor.steps_analysed, 6U);
  EXPECT_EQ(alone.monitor.steps_analysed, 0U);
}

TEST(Trainer, AnObserverThatThrowsDoesNotHurtTheTraining) {
  struct Broken : Observer {
    void on_step(const Step&, const StepStats&) override { throw std::runtime_error("broken"); }
  };
  TrainHooks hooks;
  hooks.observers.push_back(std::make_shared<Broken>());
  const Material material = toy_material();
  const TrainResult broken = run(material, toy_options(), 2, hooks).value();
  EXPECT_EQ(broken.weights_hash, run(material, toy_options(), 2)->weights_hash);
  EXPECT_EQ(broken.monitor.observer_failures, 1U);
}

TEST(Trainer, MonitorsSeeEveryChannel) {
  auto seen = std::make_shared<Steps>();
  TrainHooks hooks;
  hooks.observers.push_back(seen);
  TrainOptions options = toy_options(4);
  options.dropout = 0.1;
  options.watch.monitor.exact_cosine_interval = 2;
  options.watch.monitor.state_interval = 2;
  const TrainResult result = run(toy_material(), options, 4, hooks).value();
  ASSERT_EQ(seen->steps.size(), 4U);
  for (std::size_t i = 0; i < 4; ++i) {
    const Step& step = seen->steps[i];
    const StepStats& stats = seen->all[i];
    ASSERT_EQ(step.records.size(), 4U);
    EXPECT_NEAR(*stats.loss_mean, result.steps[i].loss, 1e-12);
    EXPECT_EQ(stats.cosine_exact, i % 2 == 0);
    EXPECT_LT(*stats.reduction_gap, 1e-4) << "the reduction is what the workers computed";
    for (const Record& record : step.records) {
      EXPECT_NEAR(record.loss_sum / record.loss_count, result.steps[i].rank_loss[record.rank], 1e-12);
      EXPECT_EQ(record.loss_count, 2U);
      EXPECT_EQ(record.fingerprints.size(), 4U);
      EXPECT_EQ(record.reduced.hash, step.records[0].reduced.hash);
      EXPECT_EQ(record.state[0].observed, i % 2 == 0);
      EXPECT_EQ(record.state[0].hash, step.records[0].state[0].hash) << "one model";
      if (i % 2 == 0 && record.rank > 0) {
        const auto rng = static_cast<std::size_t>(StateChannel::kRng);
        EXPECT_NE(record.state[rng].hash, step.records[0].state[rng].hash) << "each rank draws its own masks";
      }
    }
    // The optimizer's gradient is clipped to norm 1.
    EXPECT_NEAR(*stats.reduced_norm, std::min(1.0, result.steps[i].gradient_norm), 1e-5);
  }
}

// Exact from the direction sum, and again from the records' own gradients: S1-1 replicated is all ones.
TEST(Trainer, WorkersOnTheSameBatchesHaveCosineOne) {
  auto seen = std::make_shared<Steps>();
  TrainHooks hooks;
  hooks.observers.push_back(seen);
  TrainOptions options = toy_options(3);
  options.reading = Reading::kReplicated;
  options.watch.monitor.exact_cosine_interval = 1;
  ASSERT_TRUE(run(toy_material(), options, 4, hooks).has_value());
  for (const StepStats& stats : seen->all) {
    EXPECT_NEAR(*stats.cosine_mean, 1.0, 1e-5);
    EXPECT_EQ(*stats.loss_std, 0.0);
    EXPECT_NEAR(*stats.norm_cv, 0.0, 1e-12);
  }
}

TEST(Trainer, DropoutDrawsFromItsSeedAlone) {
  const Material material = toy_material();
  TrainOptions options = toy_options(3);
  const std::uint64_t without = run(material, options, 2)->weights_hash;
  options.dropout = 0.2;
  const std::uint64_t with = run(material, options, 2)->weights_hash;
  EXPECT_NE(with, without);
  EXPECT_EQ(run(material, options, 2)->weights_hash, with);
  options.dropout_seed = 43;
  EXPECT_NE(run(material, options, 2)->weights_hash, with);
}

TEST(Trainer, BFloat16TrainsCloseToFloat32) {
  const Material material = toy_material();
  TrainOptions options = toy_options(10);
  const TrainResult fp32 = run(material, options, 2).value();
  options.precision = Precision::kBf16;
  const TrainResult bf16 = run(material, options, 2).value();
  EXPECT_NE(fp32.weights_hash, bf16.weights_hash);
  for (std::size_t i = 0; i < fp32.steps.size(); ++i) EXPECT_NEAR(fp32.steps[i].loss, bf16.steps[i].loss, 0.05);
}

TEST(Trainer, StopEndsAfterTheCurrentStepWithWhatWasMeasured) {
  std::atomic<bool> stop{false};
  TrainHooks hooks;
  hooks.stop = &stop;
  hooks.after_step = [&](const StepResult& step, std::int64_t total) {
    EXPECT_EQ(total, 6);
    if (step.step == 1) stop = true;
  };
  const TrainResult result = run(toy_material(), toy_options(), 2, hooks).value();
  EXPECT_TRUE(result.stopped);
  EXPECT_EQ(result.steps.size(), 3U) << "the flag is read during the step after";
}

TEST(Trainer, SavedModelLoadsAndIsTheTrainedOne) {
  const ScratchFolder scratch;
  scratch.write("tokenizer.model", "not really one");
  Material material = toy_material();
  material.tokenizer = scratch / "tokenizer.model";
  TrainOptions options = toy_options();
  options.save_to = scratch / "out";
  const TrainResult result = run(material, options, 2).value();
  Material again = material;
  again.model = load_model(scratch / "out")->model;
  options.save_to.clear();
  options.learning_rate = 0;
  EXPECT_EQ(run(again, options, 2)->weights_hash, result.weights_hash);
  EXPECT_EQ(scratch.read("out/tokenizer.model"), "not really one");
}

// ---- checkpoints ---------------------------------------------------------------------------------------------------

TEST(TrainerCheckpoint, StopAndResumeGivesTheBitsOfNoStop) {
  const ScratchFolder scratch;
  const Material material = toy_material(40);  // an epoch of 5 steps: the resume crosses epochs
  TrainOptions options = toy_options(12);
  options.dropout = 0.1;
  const TrainResult whole = run(material, options, 2).value();

  options.checkpoint.folder = scratch / "ckpt";
  options.checkpoint.resume = true;
  std::vector<StepResult> steps;
  for (int part = 0; part < 20 && steps.size() < 12; ++part) {
    std::atomic<bool> stop{true};  // one step at a time
    TrainHooks hooks;
    hooks.stop = &stop;
    const TrainResult result = run(material, options, 2, hooks).value();
    EXPECT_EQ(result.first_step, static_cast<std::int64_t>(steps.size()));
    steps.insert(steps.end(), result.steps.begin(), result.steps.end());
    if (steps.size() == 12) {
      EXPECT_EQ(result.weights_hash, whole.weights_hash);
    }
  }
  ASSERT_EQ(steps.size(), 12U);
  for (std::size_t i = 0; i < 12; ++i) EXPECT_EQ(steps[i].rank_loss, whole.steps[i].rank_loss) << i;
}

TEST(TrainerCheckpoint, OneOfAnotherRunIsRefusedByName) {
  const ScratchFolder scratch;
  TrainOptions options = toy_options(3);
  options.checkpoint.folder = scratch / "ckpt";
  options.checkpoint.resume = true;
  ASSERT_TRUE(run(toy_material(), options, 2).has_value());
  const auto refusal = [&](const Material& material, const TrainOptions& other, std::uint32_t workers) {
    const auto result = run(material, other, workers);
    return result ? "accepted" : result.error().message();
  };
  EXPECT_NE(refusal(toy_material(), options, 4).find("workers is 4, was 2"), std::string::npos);
  EXPECT_NE(refusal(toy_material(128, 2), options, 2).find("model is"), std::string::npos);
  EXPECT_NE(refusal(toy_material(100), options, 2).find("data is"), std::string::npos);
  TrainOptions rate = options;
  rate.learning_rate = 0.5;
  EXPECT_NE(refusal(toy_material(), rate, 2).find("learning_rate is 0.5, was 0.01"), std::string::npos);
  EXPECT_EQ(refusal(toy_material(), options, 2), "accepted") << "the finished run itself: nothing left to do";
}

TEST(TrainerCheckpoint, AnUnreadableOneIsSkippedForTheOlder) {
  const ScratchFolder scratch;
  const Material material = toy_material();
  TrainOptions options = toy_options(6);
  options.checkpoint.folder = scratch / "ckpt";
  options.checkpoint.every = 4;
  const TrainResult whole = run(material, options, 2).value();
  std::ofstream(scratch / "ckpt/step-00000006/state.json", std::ios::trunc) << "{";
  std::string notes;
  TrainHooks hooks;
  hooks.note = [&](const std::string& note) { notes += note + "\n"; };
  options.checkpoint.resume = true;
  const TrainResult resumed = run(material, options, 2, hooks).value();
  EXPECT_EQ(resumed.first_step, 4) << notes;
  EXPECT_EQ(resumed.weights_hash, whole.weights_hash);
  EXPECT_NE(notes.find("step-00000006"), std::string::npos) << notes;
}

TEST(TrainerCheckpoint, TornWeightsAreAnErrorAndNotATraining) {
  const ScratchFolder scratch;
  const Material material = toy_material();
  TrainOptions options = toy_options(3);
  options.checkpoint.folder = scratch / "ckpt";
  ASSERT_TRUE(run(material, options, 2).has_value());
  std::filesystem::resize_file(scratch / "ckpt/step-00000003/optimizer.safetensors", 100);
  options.checkpoint.resume = true;
  const auto result = run(material, options, 2);
  ASSERT_FALSE(result.has_value());
  EXPECT_NE(result.error().message().find("optimizer.safetensors"), std::string::npos) << result.error().message();
}

TEST(TrainerCheckpoint, ResumeWithoutAFolderIsRefused) {
  TrainOptions options = toy_options(3);
  options.checkpoint.resume = true;
  EXPECT_FALSE(run(toy_material(), options, 2).has_value());
}

}  // namespace
}  // namespace lockstep::train
