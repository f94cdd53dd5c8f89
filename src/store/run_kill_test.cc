// A real process that writes a run is killed at random moments; what it had committed must be there, in a clean file.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <random>
#include <thread>

#include "store/run_reader.h"
#include "store/run_writer.h"
#include "store/schema.h"
#include "store/test_run.h"

namespace lockstep::store {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// What the child tells: up to which step it has handed over, and up to which it knows to be committed.
struct Report {
  std::uint64_t handed = 0, committed = 0;
};

// `cycle`: closes and reopens the run every few steps, so that kills fall into the ending of a run too.
struct Behaviour {
  RunWriterOptions options;
  milliseconds pause{0};
  bool cycle = false;
};

// Writes steps from 1 on and reports through the pipe until it is killed.
[[noreturn]] void write_until_killed(const std::filesystem::path& folder, const Behaviour& behaviour, int pipe) {
  RunInfo info;
  info.world = 4;
  Result<std::shared_ptr<RunWriter>> writer = RunWriter::create(folder, info, behaviour.options);
  if (!writer) _exit(1);
  for (std::uint64_t s = 1;; ++s) {
    const Step step = make_step(s, 4);
    (*writer)->on_step(step, make_stats(step));
    if (s % 5 == 0)
      (*writer)->put_finding({"f", "rank.outlier", {1}, 1, s, Certainty::kCertain, 1, {}, "{}", "m", "r"});
    const Report report{s, (*writer)->health().last_written_step.value_or(0)};
    if (write(pipe, &report, sizeof report) != sizeof report) _exit(1);
    std::this_thread::sleep_for(behaviour.pause);
    if (!behaviour.cycle || s % 3 != 0) continue;
    if (!(*writer)->close(std::chrono::seconds(20))) _exit(1);
    writer = RunWriter::open(folder, behaviour.options);
    if (!writer) _exit(1);
  }
}

struct Victim {
  pid_t process = -1;
  int pipe = -1;
};

Victim start(const std::filesystem::path& folder, const Behaviour& behaviour) {
  int ends[2];
  if (pipe(ends) != 0) return {};
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    write_until_killed(folder, behaviour, ends[1]);
  }
  close(ends[1]);
  return {child, ends[0]};
}

void wait_for_report(int pipe) {
  Report report;
  EXPECT_EQ(read(pipe, &report, sizeof report), static_cast<ssize_t>(sizeof report));
}

// The newest report of a process that has ended.
Report drain(int pipe) {
  Report report, newest;
  while (read(pipe, &report, sizeof report) == static_cast<ssize_t>(sizeof report)) newest = report;
  return newest;
}

void kill_and_wait(const Victim& victim) {
  kill(victim.process, SIGKILL);
  waitpid(victim.process, nullptr, 0);
}

// Steps in the file, after checking that it is whole and has no holes.
std::uint64_t check_file(const std::filesystem::path& folder) {
  Result<RunReader> reader = RunReader::open(folder);
  if (!reader) {
    // Killed before its first commit: the file may be absent or empty, never damaged.
    EXPECT_EQ(reader.error().code(), StatusCode::kUnavailable) << reader.error().message();
    return 0;
  }
  const RunSummary summary = *reader->summary();
  EXPECT_EQ(summary.last_step.value_or(0), summary.steps) << "steps 1 to n without holes";
  EXPECT_FALSE(summary.live);
  std::uint64_t walked = 0;
  const Status read = reader->for_each_step({}, RunReader::Ranks::kAll, [&](const StoredStep& step) {
    EXPECT_EQ(step.ranks.size(), 4U);
    ++walked;
    return true;
  });
  EXPECT_TRUE(read.is_ok()) << read.message();
  EXPECT_EQ(walked, summary.steps);
  Result<Database> database = Database::open(folder / kRunFile, OpenMode::kReadWrite);
  Result<Statement> check = database->prepare("PRAGMA integrity_check");
  EXPECT_TRUE(check->step().has_value());
  EXPECT_EQ(check->text(0), "ok");
  return summary.steps;
}

TEST(RunStore, SurvivesKillAtTwoHundredRandomMoments) {
  const std::uint32_t seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  Behaviour behaviour;
  behaviour.options.flush_interval = milliseconds(1);
  int killed_in_mid_run = 0;
  for (int round = 0; round < 200; ++round) {
    const TempFolder temp;
    behaviour.cycle = round % 4 == 1;
    const Victim victim = start(temp.path(), behaviour);
    ASSERT_GT(victim.process, 0);
    // Some kills fall into the making of the run; most wait for its first step and fall into the writing.
    if (round % 4 != 0) wait_for_report(victim.pipe);
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 30'000));
    kill_and_wait(victim);
    const Report report = drain(victim.pipe);
    close(victim.pipe);
    const std::uint64_t found = check_file(temp.path());
    EXPECT_GE(found, report.committed) << "round " << round;
    if (report.committed > 0) ++killed_in_mid_run;
    if (round % 20 == 0 && found > 0) {
      Result<std::shared_ptr<RunWriter>> again = RunWriter::open(temp.path());
      EXPECT_TRUE(again.has_value()) << "the lock died with its holder: " << again.error().message();
    }
    if (HasFailure()) return;
  }
  EXPECT_GT(killed_in_mid_run, 20) << "the kills must hit runs that had begun";
}

// With the options that training uses. The child's clock is not compared with ours: what it reported to have handed
// over before we began to wait a second must be in the file when the second is over.
TEST(RunStore, LacksAtMostTheLastSecond) {
  const TempFolder temp;
  const Victim victim = start(temp.path(), {{}, milliseconds(2), false});
  ASSERT_GT(victim.process, 0);
  Report report;
  const auto first_part = steady_clock::now() + milliseconds(300);
  while (steady_clock::now() < first_part || report.handed == 0) {
    ASSERT_EQ(read(victim.pipe, &report, sizeof report), static_cast<ssize_t>(sizeof report));
  }
  std::this_thread::sleep_for(std::chrono::seconds(1));
  kill_and_wait(victim);
  close(victim.pipe);
  EXPECT_GE(check_file(temp.path()), report.handed);
}

}  // namespace
}  // namespace lockstep::store
