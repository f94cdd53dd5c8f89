// A disk that fills, a folder that refuses, files of others: each gives a clear Status, and the caller goes on.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <mutex>
#include <thread>

#include "store/failing_vfs.h"
#include "store/run_reader.h"
#include "store/run_writer.h"
#include "store/schema.h"
#include "store/test_run.h"
#include "store/writer_lock.h"

namespace lockstep::store {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

class Lines {
 public:
  std::function<void(const std::string&)> sink() {
    return [this](const std::string& line) {
      const std::lock_guard lock(mutex_);
      lines_.push_back(line);
    };
  }
  std::vector<std::string> get() const {
    const std::lock_guard lock(mutex_);
    return lines_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> lines_;
};

void write_steps(RunWriter& writer, std::uint64_t from, std::uint64_t to) {
  for (std::uint64_t s = from; s < to; ++s) {
    const Step step = make_step(s, 4);
    writer.on_step(step, make_stats(step));
  }
}

RunInfo info_of_four() {
  RunInfo info;
  info.world = 4;
  return info;
}

TEST(RunWriter, AFullDiskIsReportedOnceAndARecoveredOneLosesNothing) {
  const TempFolder temp;
  FailingVfs disk;
  Lines lines;
  RunWriterOptions options;
  options.vfs = disk.name();
  options.log = lines.sink();
  options.flush_interval = milliseconds(1);
  options.retry_interval = milliseconds(1);
  Result<std::shared_ptr<RunWriter>> writer = RunWriter::create(temp.path(), info_of_four(), options);
  ASSERT_TRUE(writer.has_value()) << writer.error().message();
  write_steps(**writer, 0, 10);
  ASSERT_TRUE((*writer)->flush(seconds(20)).is_ok());

  disk.fill_after(6000);
  write_steps(**writer, 10, 300);
  const Status full = (*writer)->flush(seconds(20));
  EXPECT_EQ(full.code(), StatusCode::kIo);
  EXPECT_TRUE(contains(full.message(), "full")) << full.message();
  EXPECT_TRUE(contains(full.message(), "run.sqlite")) << full.message();
  while ((*writer)->health().failures < 3) std::this_thread::sleep_for(milliseconds(1));
  EXPECT_EQ(lines.get().size(), 1U) << "one line however often it fails";

  disk.make_room();
  write_steps(**writer, 300, 310);
  // The first attempt after the change may still have been under way: what counts is that one succeeds.
  Status status = (*writer)->flush(seconds(20));
  for (int i = 0; i < 100 && !status; ++i) status = (*writer)->flush(seconds(20));
  ASSERT_TRUE(status.is_ok()) << status.message();
  ASSERT_TRUE((*writer)->close(seconds(20)).is_ok());
  EXPECT_EQ((*writer)->health().steps_dropped, 0U);
  EXPECT_TRUE(contains(lines.get().back(), "works again"));
  Result<RunReader> reader = RunReader::open(temp.path());
  ASSERT_TRUE(reader.has_value());
  EXPECT_EQ(reader->summary()->steps, 310U);
  EXPECT_TRUE(contains(reader->document(kStoreDocument)->value_or(""), "failures")) << "the run itself tells of it";
}

TEST(RunWriter, ADiskThatStaysFullDropsStepsCountsThemAndKeepsWhatWasCommitted) {
  const TempFolder temp;
  FailingVfs disk;
  RunWriterOptions options;
  options.vfs = disk.name();
  options.log = [](const std::string&) {};
  options.flush_interval = milliseconds(1);
  options.retry_interval = milliseconds(1);
  options.queue_bytes = 20'000;
  Result<std::shared_ptr<RunWriter>> writer = RunWriter::create(temp.path(), info_of_four(), options);
  ASSERT_TRUE(writer.has_value()) << writer.error().message();
  write_steps(**writer, 0, 5);
  ASSERT_TRUE((*writer)->flush(seconds(20)).is_ok());
  disk.fill_after(0);
  write_steps(**writer, 5, 1000);
  const Status closed = (*writer)->close(seconds(20));
  EXPECT_EQ(closed.code(), StatusCode::kIo);
  EXPECT_TRUE(contains(closed.message(), "995 steps were lost")) << closed.message();
  const WriterHealth health = (*writer)->health();
  EXPECT_EQ(health.steps_accepted, 1000U);
  EXPECT_EQ(health.steps_written, 5U);
  EXPECT_EQ(health.steps_dropped, 995U);
  writer->reset();
  Result<RunReader> reader = RunReader::open(temp.path());
  ASSERT_TRUE(reader.has_value());
  EXPECT_EQ(reader->summary()->steps, 5U);
}

TEST(RunWriter, ADiskThatFillsAtAnyByteNeverBreaksTheFile) {
  const std::uint32_t seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 60; ++round) {
    const TempFolder temp;
    FailingVfs disk;
    RunWriterOptions options;
    options.vfs = disk.name();
    options.log = [](const std::string&) {};
    options.flush_interval = milliseconds(0);
    disk.fill_after(static_cast<std::int64_t>(random() % 400'000));
    Result<std::shared_ptr<RunWriter>> writer = RunWriter::create(temp.path(), info_of_four(), options);
    if (!writer) {
      EXPECT_EQ(writer.error().code(), StatusCode::kIo) << writer.error().message();
      continue;
    }
    for (std::uint64_t s = 0; s < 40; s += 4) {
      write_steps(**writer, s, s + 4);
      (void)(*writer)->flush(seconds(20));
    }
    (void)(*writer)->close(seconds(20));
    const std::uint64_t written = (*writer)->health().steps_written;
    writer->reset();
    Result<RunReader> reader = RunReader::open(temp.path());
    ASSERT_TRUE(reader.has_value()) << reader.error().message();
    Result<Database> database = Database::open(temp.path() / kRunFile, OpenMode::kReadOnly);
    ASSERT_TRUE(database.has_value());
    Result<Statement> check = database->prepare("PRAGMA integrity_check");
    ASSERT_TRUE(check.has_value()) << check.error().message();
    const Result<bool> checked = check->step();
    ASSERT_TRUE(checked.has_value()) << checked.error().message();
    EXPECT_EQ(check->text(0), "ok");
    EXPECT_EQ(*database->integer("SELECT count(*) FROM step"), static_cast<std::int64_t>(written));
  }
}

TEST(RunWriter, AHangingDiskHoldsUpNeitherStepsNorClose) {
  const TempFolder temp;
  FailingVfs disk;
  RunWriterOptions options;
  options.vfs = disk.name();
  options.log = [](const std::string&) {};
  Result<std::shared_ptr<RunWriter>> writer = RunWriter::create(temp.path(), info_of_four(), options);
  ASSERT_TRUE(writer.has_value()) << writer.error().message();
  disk.delay_writes_ms(100);
  write_steps(**writer, 0, 200);
  const Status closed = (*writer)->close(milliseconds(20));
  EXPECT_EQ(closed.code(), StatusCode::kDeadlineExceeded);
  disk.delay_writes_ms(0);
  // The thread ends by itself; the disk must outlive it.
  while (WriterLock::held(temp.path())) std::this_thread::sleep_for(milliseconds(5));
}

TEST(RunWriter, ASecondWriterIsRefusedByTheNameOfTheFirst) {
  const TempFolder temp;
  Result<std::shared_ptr<RunWriter>> first = RunWriter::create(temp.path(), info_of_four());
  ASSERT_TRUE(first.has_value());
  Result<std::shared_ptr<RunWriter>> second = RunWriter::open(temp.path());
  ASSERT_FALSE(second.has_value());
  EXPECT_EQ(second.error().code(), StatusCode::kUnavailable);
  EXPECT_TRUE(contains(second.error().message(), "process " + std::to_string(getpid()))) << second.error().message();
  ASSERT_TRUE((*first)->close(seconds(20)).is_ok());
  EXPECT_TRUE(RunWriter::open(temp.path()).has_value()) << "a closed run is free";
}

TEST(RunWriter, AnExistingRunIsNotOverwritten) {
  const TempFolder temp;
  ASSERT_TRUE((*RunWriter::create(temp.path(), info_of_four()))->close(seconds(20)).is_ok());
  Result<std::shared_ptr<RunWriter>> again = RunWriter::create(temp.path(), info_of_four());
  ASSERT_FALSE(again.has_value());
  EXPECT_EQ(again.error().code(), StatusCode::kFailedPrecondition);
  EXPECT_TRUE(contains(again.error().message(), "another name"));
}

TEST(RunStore, ForeignAndNewerFilesAreRefusedInWords) {
  const TempFolder temp;
  const auto expect_refused = [&](const std::string& part) {
    for (const Status& status : {RunReader::open(temp.path()).error(), RunWriter::open(temp.path()).error()}) {
      EXPECT_TRUE(contains(status.message(), part)) << status.message();
      EXPECT_TRUE(contains(status.message(), "run.sqlite")) << status.message();
    }
  };
  EXPECT_EQ(RunReader::open(temp.path()).error().code(), StatusCode::kUnavailable);

  std::ofstream(temp.path() / kRunFile) << std::string(5000, 'x');
  expect_refused("not a run of Lockstep");

  std::filesystem::remove(temp.path() / kRunFile);
  {
    Result<Database> other = Database::open(temp.path() / kRunFile, OpenMode::kCreate);
    ASSERT_TRUE(other->exec("CREATE TABLE songs (name TEXT)").is_ok());
  }
  expect_refused("another program");

  std::filesystem::remove(temp.path() / kRunFile);
  ASSERT_TRUE((*RunWriter::create(temp.path(), info_of_four()))->close(seconds(20)).is_ok());
  {
    Result<Database> newer = Database::open(temp.path() / kRunFile, OpenMode::kReadWrite);
    ASSERT_TRUE(newer->exec("PRAGMA user_version = 99").is_ok());
  }
  expect_refused("version 99");

  std::ofstream(temp.path() / kRunFile, std::ios::trunc).flush();
  expect_refused("empty");
}

// Runs `body` in a child without root's power over permissions; true when it returned true.
bool as_nobody(const std::function<bool()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0)) _exit(3);
    _exit(body() ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST(RunStore, AReadOnlyFolderRefusesTheWriterAndServesTheReader) {
  const TempFolder temp;
  const auto folder = temp.path() / "run";
  {
    Result<std::shared_ptr<RunWriter>> writer = RunWriter::create(folder, info_of_four());
    ASSERT_TRUE(writer.has_value());
    write_steps(**writer, 0, 5);
    ASSERT_TRUE((*writer)->close(seconds(20)).is_ok());
  }
  using std::filesystem::perms;
  const perms readable = perms::owner_read | perms::owner_exec | perms::group_read | perms::group_exec |
                         perms::others_read | perms::others_exec;
  for (const auto& path : {temp.path(), folder, folder / kRunFile, folder / "writer.lock"}) permissions(path, readable);

  EXPECT_TRUE(as_nobody([&] {
    Result<RunReader> reader = RunReader::open(folder);
    return reader && reader->summary()->steps == 5;
  }));
  EXPECT_TRUE(as_nobody([&] {
    const Status refused = RunWriter::open(folder).error();
    return refused.code() == StatusCode::kIo && contains(refused.message(), std::strerror(EACCES));
  }));
  EXPECT_TRUE(as_nobody([&] {
    const Status refused = RunWriter::create(temp.path() / "new", info_of_four()).error();
    return refused.code() == StatusCode::kIo && contains(refused.message(), "cannot be made");
  }));
  for (const auto& path : {temp.path(), folder}) permissions(path, perms::owner_all);
}

TEST(RunStore, AStepThatNoFileCanNumberIsDroppedNotStored) {
  const TempFolder temp;
  Result<std::shared_ptr<RunWriter>> writer = RunWriter::create(temp.path(), info_of_four());
  ASSERT_TRUE(writer.has_value());
  write_steps(**writer, UINT64_MAX - 1, UINT64_MAX);
  EXPECT_EQ((*writer)->health().steps_dropped, 1U);
}

}  // namespace
}  // namespace lockstep::store
