#include "base/atomic_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

namespace lockstep::base {
namespace {

namespace fs = std::filesystem;

class AtomicFileTest : public testing::Test {
 protected:
  AtomicFileTest() {
    std::string pattern = (fs::temp_directory_path() / "lockstep_test_XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
  }
  ~AtomicFileTest() override { fs::remove_all(folder_); }
  static std::string read(const fs::path& file) {
    std::ostringstream text;
    text << std::ifstream(file, std::ios::binary).rdbuf();
    return text.str();
  }
  std::size_t entries() const {
    std::size_t count = 0;
    for ([[maybe_unused]] const auto& entry : fs::directory_iterator(folder_)) ++count;
    return count;
  }
  fs::path folder_;
};

TEST_F(AtomicFileTest, ReplacesTheOldFileOnlyOnCommit) {
  ASSERT_TRUE(write_atomically(folder_ / "x", "one").is_ok());
  {
    AtomicFile abandoned(folder_ / "x");
    abandoned.append(std::string(200'000, 'y'));
  }
  EXPECT_EQ(read(folder_ / "x"), "one");
  EXPECT_EQ(entries(), 1U) << "an abandoned file leaves nothing behind";
  AtomicFile file(folder_ / "x");
  std::string expected;
  for (int i = 0; i < 50'000; ++i) {
    file.append("line\n");
    expected += "line\n";
  }
  ASSERT_TRUE(file.commit().is_ok());
  EXPECT_EQ(read(folder_ / "x"), expected);
}

TEST_F(AtomicFileTest, AFailureIsNamedAndLeavesNoLitter) {
  fs::create_directory(folder_ / "folder");
  const Status refused = write_atomically(folder_ / "folder", "three");
  EXPECT_EQ(refused.code(), StatusCode::kIo);
  EXPECT_NE(refused.message().find("folder"), std::string::npos);
  EXPECT_FALSE(write_atomically(folder_ / "absent" / "x", "four").is_ok());
  EXPECT_EQ(entries(), 1U);
}

}  // namespace
}  // namespace lockstep::base
