#include "store/rank_columns.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/bytes.h"

namespace lockstep::store {
namespace {

constexpr std::uint8_t kFormat = 1;
constexpr std::uint8_t kDenseRanks = 0;  // 0 .. n-1, not written
constexpr std::uint8_t kListedRanks = 1;
constexpr std::size_t kHeaderBytes = 10;
constexpr std::uint32_t kMaxRanks = 1U << 16;

// A column is read and written as the bits of its value.
struct Column {
  std::uint8_t bytes;
  std::uint64_t (*get)(const RankScalars&);
  void (*set)(RankScalars&, std::uint64_t);
};

template <Metric RankScalars::*Member>
constexpr Column f64_column{
    8,
    [](const RankScalars& row) {
      return std::bit_cast<std::uint64_t>((row.*Member).value_or(std::numeric_limits<double>::quiet_NaN()));
    },
    [](RankScalars& row, std::uint64_t bits) {
      const auto value = std::bit_cast<double>(bits);
      row.*Member = std::isnan(value) ? Metric() : Metric(value);
    }};

template <Metric RankScalars::*Member>
constexpr Column f32_column{4,
                            [](const RankScalars& row) -> std::uint64_t {
                              return std::bit_cast<std::uint32_t>(
                                  static_cast<float>((row.*Member).value_or(std::numeric_limits<double>::quiet_NaN())));
                            },
                            [](RankScalars& row, std::uint64_t bits) {
                              const auto value = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
                              row.*Member = std::isnan(value) ? Metric() : Metric(value);
                            }};

template <auto Member, class T>
constexpr Column integer_column{sizeof(T), [](const RankScalars& row) -> std::uint64_t { return row.*Member; },
                                [](RankScalars& row, std::uint64_t bits) { row.*Member = static_cast<T>(bits); }};

template <std::size_t Channel>
constexpr Column state_column{8, [](const RankScalars& row) { return row.state[Channel]; },
                              [](RankScalars& row, std::uint64_t bits) { row.state[Channel] = bits; }};

// The position is the column's number in the mask: append only (docs/run_store.md).
constexpr std::array kColumns = {
    f64_column<&RankScalars::loss>,                              // 0
    f64_column<&RankScalars::norm>,                              // 1
    f32_column<&RankScalars::leave_one_out>,                     // 2
    f32_column<&RankScalars::reduction_gap>,                     // 3
    integer_column<&RankScalars::nonfinite, std::uint32_t>,      // 4
    f32_column<&RankScalars::max_abs>,                           // 5
    f64_column<&RankScalars::reduced_norm>,                      // 6
    integer_column<&RankScalars::loss_count, std::uint32_t>,     // 7
    integer_column<&RankScalars::tokens, std::uint32_t>,         // 8
    f64_column<&RankScalars::token_loss>,                        // 9
    integer_column<&RankScalars::samples, std::uint32_t>,        // 10
    integer_column<&RankScalars::batch_hash, std::uint64_t>,     // 11
    integer_column<&RankScalars::observed, std::uint8_t>,        // 12
    integer_column<&RankScalars::gradient_hash, std::uint64_t>,  // 13
    integer_column<&RankScalars::reduced_hash, std::uint64_t>,   // 14
    state_column<0>,                                             // 15
    state_column<1>,                                             // 16
    state_column<2>,                                             // 17
    state_column<3>,                                             // 18
    state_column<4>,                                             // 19
    f32_column<&RankScalars::step_ns>,                           // 20
    f32_column<&RankScalars::digest_ns>,                         // 21
    f32_column<&RankScalars::other_ns>,                          // 22
    integer_column<&RankScalars::drops, std::uint32_t>,          // 23
};
static_assert(kStateChannels == 5, "a new state channel needs a new column");

constexpr ColumnMask first_columns(unsigned count) {
  return (ColumnMask{1} << count) - 1;
}

void put(base::ByteWriter& writer, std::uint64_t bits, std::uint8_t bytes) {
  switch (bytes) {
    case 1:
      return writer.u8(static_cast<std::uint8_t>(bits));
    case 4:
      return writer.u32(static_cast<std::uint32_t>(bits));
    default:
      return writer.u64(bits);
  }
}

std::uint64_t take(base::ByteReader& reader, std::uint8_t bytes) {
  switch (bytes) {
    case 1:
      return reader.u8();
    case 4:
      return reader.u32();
    default:
      return reader.u64();
  }
}

// Columns of `columns` in which some rank has a value.
ColumnMask used_columns(std::span<const RankScalars> ranks, ColumnMask columns) {
  const RankScalars nothing;
  ColumnMask used = 0;
  for (std::size_t c = 0; c < kColumns.size(); ++c) {
    if ((columns >> c & 1U) == 0) continue;
    const std::uint64_t absent = kColumns[c].get(nothing);
    if (std::any_of(ranks.begin(), ranks.end(), [&](const auto& row) { return kColumns[c].get(row) != absent; })) {
      used |= ColumnMask{1} << c;
    }
  }
  return used;
}

Status read_ranks(base::ByteReader& reader, std::uint8_t kind, std::uint32_t count, std::vector<RankScalars>& ranks) {
  const bool known = !ranks.empty();
  if (known && ranks.size() != count) {
    return {StatusCode::kCorrupt, fmt::format("rank columns: {} ranks here, {} in the same step", count, ranks.size())};
  }
  if (!known) ranks.resize(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint32_t rank = kind == kListedRanks ? reader.u32() : i;
    if (known && ranks[i].rank != rank) {
      return {StatusCode::kCorrupt,
              fmt::format("rank columns: rank {} where the same step has {}", rank, ranks[i].rank)};
    }
    ranks[i].rank = rank;
  }
  return Status::ok();
}

std::uint32_t saturate(std::uint64_t value) {
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(value, std::numeric_limits<std::uint32_t>::max()));
}

// Order within a batch is no property of it, so the hash adds up over the samples.
std::uint64_t batch_hash(const Record& record) {
  std::uint64_t sum = 0;
  for (std::uint64_t x : record.fingerprints) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;  // the finalizer of SplitMix64
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
    sum += x ^ (x >> 31);
  }
  return sum;
}

Metric positive(std::uint64_t value) {
  return value > 0 ? Metric(static_cast<double>(value)) : Metric();
}

}  // namespace

const ColumnMask kSeriesColumns = first_columns(5);
const ColumnMask kDetailColumns = first_columns(kColumns.size()) & ~first_columns(5);
const ColumnMask kTotalsColumns = (first_columns(23) & ~first_columns(20)) | 1U << 7 | 1U << 10 | 1U << 12;

RankScalars to_scalars(const Record& record, const RankStats* stats) {
  RankScalars row;
  row.rank = record.rank;
  if (stats != nullptr) {
    row.loss = stats->loss;
    row.norm = stats->norm;
    row.leave_one_out = stats->leave_one_out;
    row.reduction_gap = stats->reduction_gap;
  }
  row.nonfinite = saturate(record.gradient.nonfinite + record.loss_nonfinite);
  if (record.gradient.observed) {
    row.observed |= RankScalars::kGradient;
    row.max_abs = record.gradient.max_abs;
    row.gradient_hash = record.gradient.hash;
  }
  if (record.reduced.observed) {
    row.observed |= RankScalars::kReduced;
    row.reduced_norm = std::sqrt(record.reduced.sum_squares);
    row.reduced_hash = record.reduced.hash;
  }
  for (std::size_t c = 0; c < kStateChannels; ++c) {
    if (!record.state[c].observed) continue;
    row.observed |= RankScalars::state_bit(c);
    row.state[c] = record.state[c].hash;
  }
  row.loss_count = record.loss_count;
  row.tokens = saturate(record.tokens);
  if (record.tokens > 0) row.token_loss = record.token_loss_sum / static_cast<double>(record.tokens);
  row.samples = saturate(record.fingerprint_count);
  row.batch_hash = batch_hash(record);
  row.step_ns = positive(record.timings.step_ns);
  row.digest_ns = positive(record.timings.digest_ns);
  row.other_ns = positive(record.timings.other_ns);
  row.drops = saturate(record.drops);
  return row;
}

std::vector<std::byte> encode(std::span<const RankScalars> ranks, ColumnMask columns) {
  const ColumnMask used = used_columns(ranks, columns);
  bool dense = true;
  for (std::size_t i = 0; i < ranks.size(); ++i) dense = dense && ranks[i].rank == i;
  std::size_t bytes_per_rank = dense ? 0 : 4;
  for (std::size_t c = 0; c < kColumns.size(); ++c) bytes_per_rank += (used >> c & 1U) * kColumns[c].bytes;

  std::vector<std::byte> blob(kHeaderBytes + bytes_per_rank * ranks.size());
  base::ByteWriter writer(blob);
  writer.u8(kFormat);
  writer.u8(dense ? kDenseRanks : kListedRanks);
  writer.u32(static_cast<std::uint32_t>(ranks.size()));
  writer.u32(used);
  if (!dense) {
    for (const RankScalars& row : ranks) writer.u32(row.rank);
  }
  for (std::size_t c = 0; c < kColumns.size(); ++c) {
    if ((used >> c & 1U) == 0) continue;
    for (const RankScalars& row : ranks) put(writer, kColumns[c].get(row), kColumns[c].bytes);
  }
  return blob;
}

Status decode(std::span<const std::byte> blob, ColumnMask wanted, std::vector<RankScalars>& ranks) {
  base::ByteReader reader(blob);
  const std::uint8_t format = reader.u8();
  const std::uint8_t kind = reader.u8();
  const std::uint32_t count = reader.u32();
  const ColumnMask held = reader.u32();
  if (reader.failed() || format != kFormat || kind > kListedRanks || count > kMaxRanks ||
      (held & ~first_columns(kColumns.size())) != 0) {
    return {StatusCode::kCorrupt,
            fmt::format("rank columns: {} bytes that are no blob of format {}", blob.size(), kFormat)};
  }
  if (Status status = read_ranks(reader, kind, count, ranks); !status) return status;
  for (std::size_t c = 0; c < kColumns.size(); ++c) {
    if ((held >> c & 1U) == 0) continue;
    if ((wanted >> c & 1U) == 0) {
      reader.skip(std::size_t{kColumns[c].bytes} * count);
      continue;
    }
    for (RankScalars& row : ranks) kColumns[c].set(row, take(reader, kColumns[c].bytes));
  }
  if (reader.failed() || reader.remaining() != 0) {
    return {StatusCode::kCorrupt, fmt::format("rank columns: {} bytes do not hold {} ranks", blob.size(), count)};
  }
  return Status::ok();
}

}  // namespace lockstep::store
