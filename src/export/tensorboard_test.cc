#include "export/tensorboard.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <set>
#include <sstream>

#include "export/tfrecord.h"
#include "store/run_writer.h"
#include "store/test_run.h"
#include "tensorboard_event.pb.h"

namespace lockstep::exports {
namespace {

// Bit by bit, as the polynomial is defined: independent of the table that it checks.
std::uint32_t slow_crc32c(std::string_view bytes) {
  std::uint32_t crc = 0xffffffffU;
  for (const char c : bytes) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = (crc & 1U) != 0 ? (crc >> 1) ^ 0x82f63b78U : crc >> 1;
  }
  return ~crc;
}

std::uint32_t unmask(std::uint32_t masked) {
  const std::uint32_t rotated = masked - 0xa282ead8U;
  return (rotated >> 17) | (rotated << 15);
}

// Reads a file as TensorBoard does: every length and every CRC is checked.
std::vector<pb::Event> read_events(const std::filesystem::path& folder) {
  std::vector<pb::Event> events;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    EXPECT_NE(entry.path().filename().string().find("tfevents"), std::string::npos);
    std::ostringstream stream;
    stream << std::ifstream(entry.path(), std::ios::binary).rdbuf();
    const std::string bytes = stream.str();
    std::string_view rest = bytes;
    while (!rest.empty()) {
      std::uint64_t length = 0;
      std::uint32_t length_crc = 0, data_crc = 0;
      std::memcpy(&length, rest.data(), 8);
      std::memcpy(&length_crc, rest.data() + 8, 4);
      EXPECT_EQ(unmask(length_crc), slow_crc32c(rest.substr(0, 8)));
      const std::string_view data = rest.substr(12, length);
      std::memcpy(&data_crc, rest.data() + 12 + length, 4);
      EXPECT_EQ(unmask(data_crc), slow_crc32c(data));
      pb::Event event;
      EXPECT_TRUE(event.ParseFromString(std::string(data)));
      events.push_back(std::move(event));
      rest.remove_prefix(16 + length);
    }
  }
  return events;
}

TEST(TfRecord, TheChecksumIsThatOfTheStandard) {
  EXPECT_EQ(crc32c("123456789"), 0xe3069283U);
  EXPECT_EQ(crc32c(""), 0U);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aaU) << "RFC 3720, B.4";
}

TEST(Tensorboard, ScalarsOfStepsAndRanksAndTheFindingsAreThere) {
  const store::TempFolder temp;
  {
    store::RunInfo info;
    info.world = 3;
    const std::shared_ptr<store::RunWriter> writer = *store::RunWriter::create(temp.path() / "run", info);
    for (std::uint64_t s = 0; s < 5; ++s) {
      const Step step = store::make_step(s, 3);
      writer->on_step(step, store::make_stats(step));
    }
    writer->put_finding({"f", "sync.missing", {2}, 3, 4, Certainty::kCertain, 1, {}, "{}", "Rank 2 did not.", "Fix."});
    ASSERT_TRUE(writer->close(std::chrono::seconds(30)).is_ok());
  }
  store::RunReader reader = std::move(*store::RunReader::open(temp.path() / "run"));
  for (int twice = 0; twice < 2; ++twice) {
    const Status status = export_tensorboard(reader, temp.path() / "out", 2);
    ASSERT_TRUE(status.is_ok()) << status.message();
  }
  const std::vector<pb::Event> steps = read_events(temp.path() / "out" / "steps");
  ASSERT_EQ(steps.size(), 1U + 5 + 1) << "a second export replaces the first";
  EXPECT_EQ(steps[0].file_version(), "brain.Event:2");
  EXPECT_EQ(steps[4].step(), 3);
  EXPECT_GT(steps[4].wall_time(), 1.6e9);
  const StepStats stats = store::make_stats(store::make_step(3, 3));
  std::set<std::string> tags;
  for (const pb::Summary::Value& value : steps[4].summary().value()) {
    tags.insert(value.tag());
    if (value.tag() != "loss/loss_mean") continue;
    EXPECT_FLOAT_EQ(value.simple_value(), static_cast<float>(*stats.loss_mean));
  }
  EXPECT_TRUE(tags.contains("loss/loss_mean"));
  EXPECT_TRUE(tags.contains("cosine/cosine_mean"));
  EXPECT_FALSE(tags.contains("token/token_loss")) << "no verdict, no point";
  const pb::Summary::Value& text = steps[6].summary().value(0);
  EXPECT_EQ(text.tag(), "findings/sync.missing");
  EXPECT_EQ(text.metadata().plugin().name(), "text");
  EXPECT_EQ(text.tensor().string_values(0), "Rank 2 did not.\n\nFix.");

  const std::vector<pb::Event> rank = read_events(temp.path() / "out" / "rank_1");
  ASSERT_EQ(rank.size(), 6U);
  EXPECT_EQ(rank[1].summary().value(0).tag(), "rank/loss");
  EXPECT_FALSE(std::filesystem::exists(temp.path() / "out" / "rank_2")) << "beyond max_ranks";
}

}  // namespace
}  // namespace lockstep::exports
