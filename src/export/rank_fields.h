// The fields of one rank in one step by name: the columns of the table exports, in their order.
#pragma once

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "lockstep/record.h"
#include "store/rank_columns.h"

namespace lockstep::exports {

// How a value is written: a number, a 64-bit hash (as hexadecimal text: JSON numbers cannot hold it), or nothing.
struct FieldValue {
  enum class Kind { kNone, kReal, kInteger, kHash } kind = Kind::kNone;
  double real = 0;
  std::uint64_t integer = 0;
};

inline FieldValue real_field(const Metric& value) {
  return value ? FieldValue{FieldValue::Kind::kReal, *value, 0} : FieldValue{};
}
inline FieldValue integer_field(std::uint64_t value) {
  return {FieldValue::Kind::kInteger, 0, value};
}
inline FieldValue hash_field(bool observed, std::uint64_t value) {
  return observed ? FieldValue{FieldValue::Kind::kHash, 0, value} : FieldValue{};
}

// Calls `each(name, value)`. The first names are those of docs/import.md.
template <class Each>
void for_each_rank_field(const store::RankScalars& rank, Each&& each) {
  using store::RankScalars;
  const auto seen = [&](std::uint8_t bit) { return (rank.observed & bit) != 0; };
  each("loss_local", real_field(rank.loss));
  each("grad_norm_pre_ar", real_field(rank.norm));
  each("grad_norm_post_ar", real_field(rank.reduced_norm));
  each("tokens", integer_field(rank.tokens));
  each("token_loss", real_field(rank.token_loss));
  each("leave_one_out", real_field(rank.leave_one_out));
  each("reduction_gap", real_field(rank.reduction_gap));
  each("max_abs", real_field(rank.max_abs));
  each("nonfinite", integer_field(rank.nonfinite));
  each("micro_batches", integer_field(rank.loss_count));
  each("samples", integer_field(rank.samples));
  each("batch_hash", hash_field(rank.samples > 0, rank.batch_hash));
  each("gradient_hash", hash_field(seen(RankScalars::kGradient), rank.gradient_hash));
  each("reduced_hash", hash_field(seen(RankScalars::kReduced), rank.reduced_hash));
  constexpr std::array<const char*, kStateChannels> kNames = {"weights_hash", "buffers_hash", "optimizer_hash",
                                                              "rng_hash", "config_hash"};
  for (std::size_t c = 0; c < kStateChannels; ++c) {
    each(kNames[c], hash_field(seen(RankScalars::state_bit(c)), rank.state[c]));
  }
  each("step_ns", real_field(rank.step_ns));
  each("digest_ns", real_field(rank.digest_ns));
  each("other_ns", real_field(rank.other_ns));
  each("drops", integer_field(rank.drops));
}

}  // namespace lockstep::exports
