#include "base/bytes.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

namespace lockstep::base {
namespace {

TEST(Bytes, WhatIsWrittenIsReadBack) {
  std::array<std::byte, 64> buffer{};
  ByteWriter writer(buffer);
  writer.u8(0xab);
  writer.u16(0xbeef);
  writer.u32(0xdeadbeefU);
  writer.u64(0x0123456789abcdefULL);
  writer.f32(-0.0F);
  writer.f64(std::numeric_limits<double>::infinity());
  writer.zeros(3);
  ASSERT_FALSE(writer.failed());
  EXPECT_EQ(writer.position(), 30U);

  ByteReader reader(std::span<const std::byte>(buffer).first(writer.position()));
  EXPECT_EQ(reader.u8(), 0xab);
  EXPECT_EQ(reader.u16(), 0xbeef);
  EXPECT_EQ(reader.u32(), 0xdeadbeefU);
  EXPECT_EQ(reader.u64(), 0x0123456789abcdefULL);
  EXPECT_TRUE(std::signbit(reader.f32()));
  EXPECT_TRUE(std::isinf(reader.f64()));
  reader.skip(3);
  EXPECT_FALSE(reader.failed());
  EXPECT_EQ(reader.remaining(), 0U);
}

TEST(Bytes, LayoutIsLittleEndianOnEveryHost) {
  std::array<std::byte, 4> buffer{};
  ByteWriter(buffer).u32(0x01020304U);
  EXPECT_EQ(buffer[0], std::byte{4});
  EXPECT_EQ(buffer[3], std::byte{1});
}

TEST(Bytes, ReadingPastTheEndFailsAndGivesZero) {
  std::array<std::byte, 3> buffer{std::byte{1}, std::byte{2}, std::byte{3}};
  ByteReader reader(buffer);
  EXPECT_EQ(reader.u32(), 0U);
  EXPECT_TRUE(reader.failed());
  EXPECT_EQ(reader.u8(), 0U) << "a failed reader stays failed";
}

TEST(Bytes, WritingPastTheEndFailsAndWritesNothingMore) {
  std::array<std::byte, 3> buffer{};
  ByteWriter writer(buffer);
  writer.u16(0xffff);
  writer.u16(0xffff);
  EXPECT_TRUE(writer.failed());
  EXPECT_EQ(buffer[2], std::byte{0});
}

}  // namespace
}  // namespace lockstep::base
