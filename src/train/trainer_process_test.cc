// The trainer in real processes: c10d against virtual, workers that are killed, runs that are killed and go on.
//
// A test starts this program again with LOCKSTEP_TEST_PART and LOCKSTEP_TEST_FOLDER set; the child trains the toy and
// writes what it got to the folder.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <random>
#include <thread>

#include "train/checkpoint.h"
#include "train/job_store.h"
#include "train/launcher.h"
#include "train/scratch_folder.h"
#include "train/toy_material.h"
#include "train/trainer.h"

namespace lockstep::train {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

TrainOptions process_options() {
  TrainOptions options;
  options.batch = {2, 2, PartialStep::kDrop};
  options.max_steps = 12;
  options.learning_rate = 1e-2;
  options.precision = Precision::kFp32;
  options.dropout = 0.1;
  options.deterministic = true;
  options.threads = 1;
  options.watch.monitor.layout.k = kMinSketchDim;
  options.watch.monitor.deadline = std::chrono::minutes(1);
  return options;
}

json to_json(const TrainResult& result) {
  json steps = json::array();
  for (const StepResult& step : result.steps) steps.push_back(step.rank_loss);
  return {{"losses", steps},
          {"first_step", result.first_step},
          {"stopped", result.stopped},
          {"hash", result.weights_hash},
          {"analysed", result.monitor.steps_analysed}};
}

// ---- the children -------------------------------------------------------------------------------------------------

int train_child(Engine& engine, TrainOptions options, const fs::path& folder, const TrainHooks& hooks = {}) {
  auto result = train(toy_material(), options, engine, hooks);
  if (!result) {
    std::fprintf(stderr, "child of rank %u: %s\n", engine.first_rank(), result.error().message().c_str());
    return 3;
  }
  if (engine.is_root()) std::ofstream(folder / "result.json") << to_json(*result);
  std::ofstream(folder / ("hash." + std::to_string(engine.first_rank()))) << result->weights_hash;
  return engine.close() ? 0 : 3;
}

int run_part(const std::string& part, const fs::path& folder) {
  TrainOptions options = process_options();
  if (part == "exit") return std::atoi(std::getenv("RANK")) == 1 ? 7 : 0;
  if (part == "virtual") {  // a long one that is killed
    auto engine = make_virtual_engine(2).value();
    options.max_steps = 40;
    options.checkpoint = {folder / "ckpt", 1, true};
    return train_child(*engine, options, folder);
  }
  auto engine = make_c10d_engine();
  if (!engine) {
    std::fprintf(stderr, "%s\n", engine.error().message().c_str());
    return 3;
  }
  const std::uint32_t rank = (*engine)->first_rank();
  TrainHooks hooks;
  static std::atomic<bool> stop{false};
  hooks.stop = &stop;
  if (part == "resume") options.checkpoint = {folder / "ckpt", 4, true};
  if (part == "other_options") options.learning_rate = rank == 1 ? 0.5 : 0.01;
  if (part == "killed") {
    options.max_steps = 100000;
    if (rank == 1) {
      std::thread([] {
        std::this_thread::sleep_for(std::chrono::milliseconds(300));
        ::raise(SIGKILL);
      }).detach();
    }
  }
  if (part == "interrupted") {  // waits for the signal that the launcher passes on
    options.max_steps = 100000;
    ::signal(SIGINT, [](int) { stop = true; });
    hooks.after_step = [&](const StepResult& step, std::int64_t) {
      if (step.step == 2) ::kill(::getppid(), SIGINT);
    };
  }
  return train_child(**engine, options, folder, hooks);
}

// ---- the parent ---------------------------------------------------------------------------------------------------

class PartVariables {
 public:
  PartVariables(const char* part, const fs::path& folder) {
    ::setenv("LOCKSTEP_TEST_PART", part, 1);
    ::setenv("LOCKSTEP_TEST_FOLDER", folder.c_str(), 1);
  }
  ~PartVariables() {
    ::unsetenv("LOCKSTEP_TEST_PART");
    ::unsetenv("LOCKSTEP_TEST_FOLDER");
  }
};

Status launch(const char* part, std::uint32_t workers, const fs::path& folder) {
  const PartVariables variables(part, folder);
  auto store = JobStore::serve();
  if (!store) return store.error();
  LaunchOptions options;
  options.workers = workers;
  options.arguments = {"train_tests"};
  options.store_port = store->port();
  return launch_workers(options);
}

json result_of(const ScratchFolder& folder) {
  return json::parse(folder.read("result.json"), nullptr, false);
}

json virtual_result(std::uint32_t workers) {
  auto engine = make_virtual_engine(workers).value();
  return to_json(train(toy_material(), process_options(), *engine).value());
}

TEST(Processes, TwoGiveTheBitsOfTheVirtualEngine) {
  const ScratchFolder folder;
  const Status status = launch("c10d", 2, folder.path());
  ASSERT_TRUE(status.is_ok()) << status.message();
  const json real = result_of(folder), expected = virtual_result(2);
  EXPECT_EQ(real["losses"], expected["losses"]) << "a sum of two does not depend on its order";
  EXPECT_EQ(real["hash"], expected["hash"]);
  EXPECT_EQ(folder.read("hash.0"), folder.read("hash.1"));
  EXPECT_EQ(real["analysed"], 12);
}

TEST(Processes, FourFollowTheVirtualEngineWithinRounding) {
  const ScratchFolder folder;
  const Status status = launch("c10d", 4, folder.path());
  ASSERT_TRUE(status.is_ok()) << status.message();
  const json real = result_of(folder), expected = virtual_result(4);
  for (int rank = 1; rank < 4; ++rank) EXPECT_EQ(folder.read("hash.0"), folder.read("hash." + std::to_string(rank)));
  ASSERT_EQ(real["losses"].size(), expected["losses"].size());
  // gloo adds four gradients in another order than the virtual engine: an error of about 2 roundings (1.2e-7) per
  // element and step. Adam turns it into weights of equal relative error, except where a second moment is near zero;
  // twelve steps at rate 1e-2 then move the loss by well under 1e-4.
  for (std::size_t step = 0; step < real["losses"].size(); ++step) {
    for (std::size_t rank = 0; rank < 4; ++rank) {
      const double a = real["losses"][step][rank], b = expected["losses"][step][rank];
      const double tolerance = step == 0 ? 0 : 1e-4;  // before the first reduction nothing differs
      EXPECT_NEAR(a, b, tolerance) << "step " << step << ", rank " << rank;
    }
  }
}

TEST(Processes, OneTrainsToo) {
  const ScratchFolder folder;
  ASSERT_TRUE(launch("c10d", 1, folder.path()).is_ok());
  EXPECT_EQ(result_of(folder)["hash"], virtual_result(1)["hash"]);
}

TEST(Processes, ADeadWorkerEndsTheJobAndIsNamed) {
  const ScratchFolder folder;
  const Status killed = launch("killed", 3, folder.path());
  EXPECT_NE(killed.message().find("rank 1 of 3 ended with signal 9"), std::string::npos) << killed.message();
  const Status exited = launch("exit", 2, folder.path());
  EXPECT_NE(exited.message().find("rank 1 of 2 ended with exit status 7"), std::string::npos) << exited.message();
}

TEST(Processes, CtrlCEndsAllAfterTheSameStep) {
  const ScratchFolder folder;
  const Status status = launch("interrupted", 2, folder.path());
  ASSERT_TRUE(status.is_ok()) << status.message();
  const json result = result_of(folder);
  EXPECT_TRUE(result["stopped"]);
  EXPECT_GE(result["losses"].size(), 3U);
  EXPECT_EQ(folder.read("hash.0"), folder.read("hash.1"));
}

TEST(Processes, RanksWithOtherOptionsAreRefused) {
  const ScratchFolder folder;
  const Status status = launch("other_options", 2, folder.path());
  EXPECT_NE(status.message().find("exit status 3"), std::string::npos) << status.message();
  EXPECT_EQ(folder.read("result.json"), "");
}

TEST(Processes, ResumeTogetherFromOneCheckpoint) {
  const ScratchFolder folder;
  {  // eight of twelve steps, by the virtual engine: checkpoints do not depend on the engine
    TrainOptions options = process_options();
    options.checkpoint = {folder / "ckpt", 0, false};
    std::atomic<bool> stop{false};
    TrainHooks hooks;
    hooks.stop = &stop;
    hooks.after_step = [&](const StepResult& step, std::int64_t) { stop = step.step == 6; };
    auto engine = make_virtual_engine(2).value();
    ASSERT_EQ(train(toy_material(), options, *engine, hooks)->steps.size(), 8U);
  }
  const Status status = launch("resume", 2, folder.path());
  ASSERT_TRUE(status.is_ok()) << status.message();
  EXPECT_EQ(result_of(folder)["first_step"], 8);
  EXPECT_EQ(result_of(folder)["hash"], virtual_result(2)["hash"]);
}

// ---- kill -9 -------------------------------------------------------------------------------------------------------

pid_t start(const char* part, const fs::path& folder) {
  const PartVariables variables(part, folder);
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::execl("/proc/self/exe", "train_tests", nullptr);
    ::_exit(127);
  }
  return pid;
}

std::int64_t newest_step(const fs::path& folder) {
  std::int64_t newest = 0;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("step-")) newest = std::max(newest, std::int64_t{std::stoll(name.substr(5))});
  }
  return newest;
}

bool running(pid_t pid) {
  return ::waitpid(pid, nullptr, WNOHANG) == 0;
}

// Killed at random moments after each few checkpoints, so that every start is a real resume.
TEST(KilledRun, GoesOnWithTheBitsOfOneThatWasNotKilled) {
  const ScratchFolder whole, killed;
  {
    const pid_t pid = start("virtual", whole.path());
    ::waitpid(pid, nullptr, 0);
  }
  const json expected = result_of(whole);
  ASSERT_EQ(expected["losses"].size(), 40U);

  const auto seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  int kills = 0;
  for (int life = 0; life < 60 && result_of(killed).is_discarded(); ++life) {
    const std::int64_t until = newest_step(killed / "ckpt") + 1 + random() % 8;
    const pid_t pid = start("virtual", killed.path());
    bool alive = true;
    while (alive && newest_step(killed / "ckpt") < until) {
      std::this_thread::sleep_for(std::chrono::microseconds(200));
      alive = running(pid);
    }
    if (!alive) continue;
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 20000));
    if (!running(pid)) continue;
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
    ++kills;
    for (const auto& entry : fs::directory_iterator(killed / "ckpt")) {
      if (!entry.path().filename().string().starts_with("step-")) continue;
      EXPECT_TRUE(read_checkpoint_state(entry.path()).has_value()) << entry.path();
    }
  }
  EXPECT_GE(kills, 2);
  const json result = result_of(killed);
  ASSERT_FALSE(result.is_discarded());
  EXPECT_EQ(result["hash"], expected["hash"]) << "after " << kills << " kills";
  EXPECT_EQ(result["losses"].back(), expected["losses"].back());
}

// ---- mpirun --------------------------------------------------------------------------------------------------------

// Started by mpirun (CMakeLists.txt); rank 0 compares with the virtual engine.
TEST(UnderMpi, GivesTheCurveOfTheVirtualEngine) {
  auto engine = make_mpi_engine();
  ASSERT_TRUE(engine.has_value()) << engine.error().message();
  const std::uint32_t world = (*engine)->world();
  auto result = train(toy_material(), process_options(), **engine);
  ASSERT_TRUE(result.has_value()) << result.error().message();
  if ((*engine)->is_root()) {
    EXPECT_EQ(result->monitor.steps_analysed, 12U);
    const json real = to_json(*result), expected = virtual_result(world);
    for (std::size_t step = 0; step < 12; ++step) {
      for (std::size_t rank = 0; rank < world; ++rank) {
        EXPECT_NEAR(double{real["losses"][step][rank]}, double{expected["losses"][step][rank]}, 1e-4);
      }
    }
    if (world <= 2) {
      EXPECT_EQ(real["hash"], expected["hash"]);
    }
  }
  EXPECT_TRUE((*engine)->close().is_ok());
}

}  // namespace
}  // namespace lockstep::train

int main(int argc, char** argv) {
  if (const char* part = std::getenv("LOCKSTEP_TEST_PART")) {
    return lockstep::train::run_part(part, std::getenv("LOCKSTEP_TEST_FOLDER"));
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
