#include "lockstep/record.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <random>

namespace lockstep {
namespace {

Record sample_record(const RecordLayout& layout, std::uint64_t seed = 1) {
  std::mt19937_64 random(seed);
  Record record;
  record.rank = 3;
  record.world = 8;
  record.step = 41;
  record.loss_sum = 6.5;
  record.loss_count = 4;
  record.loss_nonfinite = 1;
  record.token_loss_sum = 812.25;
  record.tokens = 499;
  record.gradient = {true, 1000, 2.5, 0.75, 2, random(), std::vector<float>(layout.k)};
  record.reduced = {true, 1000, 1.5, 0.5, 0, random(), std::vector<float>(layout.k_reduced)};
  for (float& bin : record.gradient.sketch) bin = static_cast<float>(random() % 1000) / 7.0F - 70.0F;
  for (float& bin : record.reduced.sketch) bin = static_cast<float>(random() % 1000) / 7.0F - 70.0F;
  record.direction_sum_squares = 12.5;
  record.state[0] = {true, random()};
  record.state[3] = {true, 0};
  record.fingerprints = {random(), random(), random()};
  record.fingerprint_count = 5;
  record.sampler = {true, true, 3, 8, random(), 2, 50000};
  record.host = {true, false, true};
  record.update_rms = 0.0625;
  record.timings = {100, 20, 3};
  record.drops = 9;
  return record;
}

void expect_equal(const Record& a, const Record& b) {
  EXPECT_EQ(a.rank, b.rank);
  EXPECT_EQ(a.world, b.world);
  EXPECT_EQ(a.step, b.step);
  EXPECT_EQ(a.loss_sum, b.loss_sum);
  EXPECT_EQ(a.loss_count, b.loss_count);
  EXPECT_EQ(a.loss_nonfinite, b.loss_nonfinite);
  EXPECT_EQ(a.token_loss_sum, b.token_loss_sum);
  EXPECT_EQ(a.tokens, b.tokens);
  for (auto part : {&Record::gradient, &Record::reduced}) {
    EXPECT_EQ((a.*part).observed, (b.*part).observed);
    EXPECT_EQ((a.*part).count, (b.*part).count);
    EXPECT_EQ((a.*part).sum_squares, (b.*part).sum_squares);
    EXPECT_EQ((a.*part).max_abs, (b.*part).max_abs);
    EXPECT_EQ((a.*part).nonfinite, (b.*part).nonfinite);
    EXPECT_EQ((a.*part).hash, (b.*part).hash);
    EXPECT_EQ((a.*part).sketch, (b.*part).sketch);
  }
  EXPECT_EQ(a.direction_sum_squares, b.direction_sum_squares);
  for (std::size_t i = 0; i < kStateChannels; ++i) {
    EXPECT_EQ(a.state[i].observed, b.state[i].observed);
    EXPECT_EQ(a.state[i].hash, b.state[i].hash);
  }
  EXPECT_EQ(a.fingerprints, b.fingerprints);
  EXPECT_EQ(a.fingerprint_count, b.fingerprint_count);
  EXPECT_EQ(a.sampler, b.sampler);
  EXPECT_EQ(a.host, b.host);
  EXPECT_EQ(a.update_rms, b.update_rms);
  EXPECT_EQ(a.timings.step_ns, b.timings.step_ns);
  EXPECT_EQ(a.timings.digest_ns, b.timings.digest_ns);
  EXPECT_EQ(a.timings.other_ns, b.timings.other_ns);
  EXPECT_EQ(a.drops, b.drops);
}

TEST(Record, PacksAndUnpacksToTheSame) {
  const RecordLayout layout{512, 64, 8, 77};
  const Record record = sample_record(layout);
  Result<std::vector<std::byte>> bytes = pack(record, layout);
  ASSERT_TRUE(bytes.has_value());
  EXPECT_EQ(bytes->size(), packed_size(layout));
  Result<Record> back = unpack(*bytes, layout, 3);
  ASSERT_TRUE(back.has_value()) << back.error().message();
  expect_equal(record, *back);
}

TEST(Record, WithoutASketchIsShort) {
  const RecordLayout layout;
  Record record = sample_record(layout);
  record.gradient.sketch.clear();
  Result<std::vector<std::byte>> bytes = pack(record, layout);
  ASSERT_TRUE(bytes.has_value());
  EXPECT_LT(bytes->size(), 2048U);
  Result<Record> back = unpack(*bytes, layout, 3);
  ASSERT_TRUE(back.has_value()) << back.error().message();
  expect_equal(record, *back);
}

TEST(Record, DefaultLayoutIsAbout17KiB) {
  EXPECT_GE(packed_size(RecordLayout{}), 16U * 1024);
  EXPECT_LE(packed_size(RecordLayout{}), 17U * 1024 + 512);
}

TEST(Record, TruncatedAtAnyByteIsRefusedByName) {
  const RecordLayout layout{256, 16, 2, 0};
  Record record = sample_record(layout);
  record.fingerprints.resize(2);
  const std::vector<std::byte> bytes = *pack(record, layout);
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    Result<Record> result = unpack(std::span(bytes).first(length), layout, 3);
    ASSERT_FALSE(result.has_value()) << length;
    ASSERT_NE(result.error().message().find("rank 3"), std::string::npos) << result.error().message();
  }
}

TEST(Record, AnyFlippedBitIsRefused) {
  const RecordLayout layout{256, 16, 2, 0};
  Record record = sample_record(layout);
  record.fingerprints.resize(2);
  std::vector<std::byte> bytes = *pack(record, layout);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const auto bit = static_cast<std::byte>(1U << (i % 8));
    bytes[i] ^= bit;
    ASSERT_FALSE(unpack(bytes, layout, 3).has_value()) << "byte " << i;
    bytes[i] ^= bit;
  }
  EXPECT_TRUE(unpack(bytes, layout, 3).has_value());
}

TEST(Record, ForeignVersionNamesRankAndRemedy) {
  const RecordLayout layout{256, 16, 2, 0};
  Record record = sample_record(layout);
  record.fingerprints.resize(2);
  std::vector<std::byte> bytes = *pack(record, layout);
  bytes[4] = std::byte{9};
  const Status error = unpack(bytes, layout, 3).error();
  EXPECT_NE(error.message().find("rank 3 sent a record of version 9"), std::string::npos) << error.message();
  EXPECT_NE(error.message().find("same lockstep version"), std::string::npos) << error.message();
}

TEST(Record, OtherLayoutNamesBothLayouts) {
  const RecordLayout theirs{256, 16, 4, 0};
  const RecordLayout ours{512, 16, 4, 0};
  const Status error = unpack(*pack(sample_record(theirs), theirs), ours, 3).error();
  EXPECT_NE(error.message().find("k=256"), std::string::npos) << error.message();
  EXPECT_NE(error.message().find("k=512"), std::string::npos) << error.message();
}

TEST(Record, WrongSenderIsRefused) {
  const RecordLayout layout{256, 16, 4, 0};
  EXPECT_FALSE(unpack(*pack(sample_record(layout), layout), layout, 4).has_value());
}

TEST(Record, RandomBytesNeverCrashTheReader) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  const RecordLayout layout{256, 16, 4, 0};
  const std::vector<std::byte> good = *pack(sample_record(layout), layout);
  for (int trial = 0; trial < 2000; ++trial) {
    std::vector<std::byte> bytes(random() % (2 * good.size()));
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      bytes[i] = i < 32 && i < good.size() ? good[i] : static_cast<std::byte>(random());
    }
    EXPECT_FALSE(unpack(bytes, layout, 3).has_value());
  }
}

TEST(Record, BinsBeyondFloatRangeAreClampedNotInfinite) {
  const RecordLayout layout{256, 16, 4, 0};
  Record record = sample_record(layout);
  record.gradient.sketch[5] = std::numeric_limits<float>::infinity();
  record.gradient.sketch[6] = std::numeric_limits<float>::quiet_NaN();
  Result<Record> back = unpack(*pack(record, layout), layout, 3);
  ASSERT_TRUE(back.has_value()) << back.error().message();
  EXPECT_EQ(back->gradient.sketch[5], std::numeric_limits<float>::max());
  EXPECT_EQ(back->gradient.sketch[6], 0.0F);
}

TEST(Record, ThatDoesNotFitItsLayoutIsNotPacked) {
  const RecordLayout layout{256, 16, 2, 0};
  Record record = sample_record({512, 16, 2, 0});
  record.fingerprints.resize(2);
  EXPECT_FALSE(pack(record, layout).has_value());
  record = sample_record(layout);  // three fingerprints, room for two
  EXPECT_FALSE(pack(record, layout).has_value());
}

TEST(RecordLayout, ValidateNamesTheFieldThatIsWrong) {
  EXPECT_TRUE(validate(RecordLayout{}).is_ok());
  EXPECT_NE(validate(RecordLayout{1000, 16, 4, 0}).message().find("k = 1000"), std::string::npos);
  EXPECT_NE(validate(RecordLayout{256, 512, 4, 0}).message().find("k_reduced = 512"), std::string::npos);
  EXPECT_FALSE(validate(RecordLayout{256, 0, 4, 0}).is_ok());
}

}  // namespace
}  // namespace lockstep
