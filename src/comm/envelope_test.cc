#include "comm/envelope.h"

#include <gtest/gtest.h>

namespace lockstep::comm {
namespace {

std::vector<std::byte> sample() {
  const std::byte payload[] = {std::byte{1}, std::byte{2}, std::byte{3}};
  return pack(EnvelopeKind::kPublication, 2, 0x0102030405060708ULL, payload);
}

TEST(Envelope, WhatIsPackedIsUnpacked) {
  const Result<Envelope> envelope = unpack_envelope(sample(), 4);
  ASSERT_TRUE(envelope.has_value()) << envelope.error().message();
  EXPECT_EQ(envelope->kind, EnvelopeKind::kPublication);
  EXPECT_EQ(envelope->rank, 2U);
  EXPECT_EQ(envelope->number, 0x0102030405060708ULL);
  EXPECT_EQ(envelope->payload, (std::vector<std::byte>{std::byte{1}, std::byte{2}, std::byte{3}}));
}

TEST(Envelope, TruncatedForeignAndUnknownBytesAreRefused) {
  const std::vector<std::byte> good = sample();
  for (std::size_t bytes = 0; bytes < 24; ++bytes) {
    EXPECT_FALSE(unpack_envelope(std::span(good).first(bytes), 4).has_value()) << bytes;
  }
  for (const std::size_t byte : {0U, 4U, 7U}) {  // magic, version, kind
    std::vector<std::byte> bad = good;
    bad[byte] = std::byte{0xee};
    EXPECT_EQ(unpack_envelope(bad, 4).error().code(), StatusCode::kCorrupt) << byte;
  }
  EXPECT_FALSE(unpack_envelope(good, 2).has_value()) << "rank 2 in a group of 2";
}

TEST(Envelope, AnotherVersionIsNamed) {
  std::vector<std::byte> newer = sample();
  newer[4] = std::byte{9};
  EXPECT_EQ(
      unpack_envelope(newer, 4).error().message(),
      "rank 2 sent an envelope of version 9, this rank has version 1: all ranks must run the same lockstep version");
}

}  // namespace
}  // namespace lockstep::comm
