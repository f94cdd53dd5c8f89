#include "train/atomic_file.h"

#include <sys/resource.h>

#include <csignal>

#include "train/scratch_folder.h"

namespace lockstep::train {
namespace {

TEST(AtomicFile, CommittedFileHoldsWhatWasWritten) {
  ScratchFolder folder;
  auto file = AtomicFile::create(folder / "a");
  ASSERT_TRUE(file) << file.error().message();
  ASSERT_TRUE(file->write(std::string_view("one ")));
  ASSERT_TRUE(file->write(std::string_view("two")));
  ASSERT_TRUE(file->commit());
  EXPECT_EQ(folder.read("a"), "one two");
  EXPECT_EQ(folder.files(), 1u);
}

TEST(AtomicFile, AbandonedFileLeavesTheOldOneUntouched) {
  ScratchFolder folder;
  folder.write("a", "old");
  {
    auto file = AtomicFile::create(folder / "a");
    ASSERT_TRUE(file);
    ASSERT_TRUE(file->write(std::string_view("half of the ne")));
    EXPECT_EQ(folder.read("a"), "old");
  }
  EXPECT_EQ(folder.read("a"), "old");
  EXPECT_EQ(folder.files(), 1u);
}

TEST(AtomicFile, FolderThatIsNotThereIsAnErrorThatNamesTheFile) {
  ScratchFolder folder;
  auto file = AtomicFile::create(folder / "missing" / "a");
  ASSERT_FALSE(file);
  EXPECT_NE(file.error().message().find("missing/a"), std::string::npos) << file.error().message();
}

// The limit stands for a disk that fills up in the middle of a write.
TEST(AtomicFile, WriteThatFailsHalfWayLeavesNothingBehind) {
  ScratchFolder folder;
  folder.write("a", "old");
  struct rlimit before {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto ignored = std::signal(SIGXFSZ, SIG_IGN);
  struct rlimit small = before;
  small.rlim_cur = 1000;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  Status status;
  {
    auto file = AtomicFile::create(folder / "a");
    ASSERT_TRUE(file);
    status = file->write(std::string(5000, 'x'));
  }
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, ignored);
  EXPECT_EQ(status.code(), StatusCode::kIo);
  EXPECT_EQ(folder.read("a"), "old");
  EXPECT_EQ(folder.files(), 1u);
}

TEST(ReadTextFile, RefusesWhatIsLargerThanItsLimit) {
  ScratchFolder folder;
  folder.write("a", std::string(100, 'x'));
  EXPECT_EQ(read_text_file(folder / "a", 100).value(), std::string(100, 'x'));
  EXPECT_FALSE(read_text_file(folder / "a", 99));
  EXPECT_EQ(read_text_file(folder / "b", 99).error().code(), StatusCode::kUnavailable);
  EXPECT_FALSE(read_text_file(folder.path(), 99)) << "a folder is no text";
}

}  // namespace
}  // namespace lockstep::train
