#include "train/file_bytes.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <string>

namespace lockstep::train {
namespace {

namespace fs = std::filesystem;

class FileBytes : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "lockstep_file_bytes.XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }
  fs::path folder_;
};

TEST_F(FileBytes, WhatIsWrittenIsReadBack) {
  for (std::string bytes : {std::string(), std::string("a\0b\r\n", 5), std::string(300000, 'x')}) {
    ASSERT_TRUE(write_file_atomically(folder_ / "f", bytes));
    EXPECT_EQ(*read_file(folder_ / "f"), bytes);
  }
}

TEST_F(FileBytes, WhatCannotBeReadIsNamed) {
  Result<std::string> missing = read_file(folder_ / "nothing");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code(), StatusCode::kUnavailable);
  EXPECT_NE(missing.error().message().find("nothing"), std::string::npos);
  EXPECT_EQ(read_file(folder_).error().code(), StatusCode::kInvalidArgument);
}

// A file-size limit stands in for a full disk: the write fails half way.
TEST_F(FileBytes, AFullDiskKeepsTheOldFileWhole) {
  ASSERT_TRUE(write_file_atomically(folder_ / "f", "old"));
  ::rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  auto* handler = std::signal(SIGXFSZ, SIG_IGN);
  ::rlimit small = before;
  small.rlim_cur = 100000;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  Status status = write_file_atomically(folder_ / "f", std::string(300000, 'x'));
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.code(), StatusCode::kIo);
  EXPECT_EQ(*read_file(folder_ / "f"), "old");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()), 1) << "no temporary file stays";
}

}  // namespace
}  // namespace lockstep::train
