// Packing and unpacking of records. docs/record.md is the description of these bytes; change both together.
#include "lockstep/record.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/bytes.h"

namespace lockstep {
namespace {

using base::ByteReader;
using base::ByteWriter;

constexpr std::uint32_t kMagic = 0x52534b4c;  // "LKSR"
constexpr std::size_t kChecksumBytes = 8;
constexpr std::uint32_t kMaxFingerprints = 1U << 20;

// Offset of the sketches: everything before it has one place in every record.
constexpr std::size_t kGradientBytes = 8 * 5;
constexpr std::size_t kFixedBytes = 4 + 2 + 2 + 4             // magic, version, flags, total bytes
                                    + 4 * 3 + 8               // layout
                                    + 4 + 4 + 8               // rank, world, step
                                    + 8 + 4 + 4 + 8 + 8       // losses, tokens
                                    + 2 * kGradientBytes + 8  // gradients, direction sum
                                    + 8 + 8 * kStateChannels  // mask (padded), state hashes
                                    + 8 * 3 + 8               // timings, drops
                                    + 8 + 4 + 4               // fingerprints: all, stored, padding
                                    + 8 * 3 + 4 + 4           // sampler facts
                                    + 8;                      // RMS of the update

enum Flag : std::uint16_t {
  kGradientObserved = 1U << 0U,
  kReducedObserved = 1U << 1U,
  kGradientSketch = 1U << 2U,
  kReducedSketch = 1U << 3U,
  kSamplerObserved = 1U << 4U,
  kSamplerShuffle = 1U << 5U,
  kForwardDraws = 1U << 6U,
  kSampleIds = 1U << 7U,
  kTokenWeighted = 1U << 8U,
};
constexpr std::uint16_t kAllFlags = (1U << 9U) - 1;

Status corrupt(std::uint32_t rank, const std::string& reason) {
  return {StatusCode::kCorrupt, fmt::format("rank {} sent a record that was refused: {}", rank, reason)};
}

std::uint64_t checksum(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

void write_gradient(ByteWriter& out, const GradientRecord& gradient) {
  out.u64(gradient.count);
  out.f64(gradient.sum_squares);
  out.f64(gradient.max_abs);
  out.u64(gradient.nonfinite);
  out.u64(gradient.hash);
}

void read_gradient(ByteReader& in, GradientRecord& gradient) {
  gradient.count = in.u64();
  gradient.sum_squares = in.f64();
  gradient.max_abs = in.f64();
  gradient.nonfinite = in.u64();
  gradient.hash = in.u64();
}

std::uint16_t flags_of(const Record& record) {
  std::uint16_t flags = 0;
  const auto set = [&](bool on, Flag flag) { flags = static_cast<std::uint16_t>(on ? flags | flag : flags); };
  set(record.gradient.observed, kGradientObserved);
  set(record.reduced.observed, kReducedObserved);
  set(!record.gradient.sketch.empty(), kGradientSketch);
  set(!record.reduced.sketch.empty(), kReducedSketch);
  set(record.sampler.observed, kSamplerObserved);
  set(record.sampler.shuffle, kSamplerShuffle);
  set(record.host.forward_draws, kForwardDraws);
  set(record.host.sample_ids, kSampleIds);
  set(record.host.token_weighted, kTokenWeighted);
  return flags;
}

void write_sampler(ByteWriter& out, const SamplerFacts& sampler) {
  out.u64(sampler.seed);
  out.u64(sampler.epoch);
  out.u64(sampler.dataset_size);
  out.u32(sampler.rank);
  out.u32(sampler.replicas);
}

void read_sampler(ByteReader& in, std::uint16_t flags, SamplerFacts& sampler) {
  sampler.observed = (flags & kSamplerObserved) != 0;
  sampler.shuffle = (flags & kSamplerShuffle) != 0;
  sampler.seed = in.u64();
  sampler.epoch = in.u64();
  sampler.dataset_size = in.u64();
  sampler.rank = in.u32();
  sampler.replicas = in.u32();
}

void write_sketch(ByteWriter& out, const std::vector<float>& sketch, std::uint32_t k) {
  if (sketch.empty()) {
    out.zeros(4UL * k);
    return;
  }
  // A bin beyond float's range is as good as its limit for every use of it, and must not become infinite on the way.
  constexpr float kLimit = std::numeric_limits<float>::max();
  for (float bin : sketch) out.f32(std::isnan(bin) ? 0.0F : std::clamp(bin, -kLimit, kLimit));
}

// Empty and no error when the record carries no such sketch.
Status read_sketch(ByteReader& in, std::vector<float>& sketch, std::uint32_t k, bool present, std::uint32_t rank,
                   const char* name) {
  if (!present) {
    in.skip(4UL * k);
    return Status::ok();
  }
  sketch.resize(k);
  for (std::uint32_t i = 0; i < k; ++i) {
    sketch[i] = in.f32();
    if (!std::isfinite(sketch[i])) return corrupt(rank, fmt::format("bin {} of the {} sketch is not finite", i, name));
  }
  return Status::ok();
}

Status check_gradient(const GradientRecord& gradient, std::uint32_t rank, const char* name) {
  const auto magnitude = [](double value) { return value >= 0; };  // false for NaN
  if (!magnitude(gradient.sum_squares) || !magnitude(gradient.max_abs)) {
    return corrupt(rank, fmt::format("the {} gradient has sum of squares {} and max {}, which no gradient has", name,
                                     gradient.sum_squares, gradient.max_abs));
  }
  if (gradient.nonfinite > gradient.count) {
    return corrupt(rank, fmt::format("the {} gradient has {} non-finite elements of {}", name, gradient.nonfinite,
                                     gradient.count));
  }
  return Status::ok();
}

Status check_against_layout(const Record& record, const RecordLayout& layout) {
  const auto fits = [](const std::vector<float>& sketch, std::uint32_t k) {
    return sketch.empty() || sketch.size() == k;
  };
  const auto refuse = [&](const std::string& reason) {
    return Status(StatusCode::kInvalidArgument, fmt::format("rank {}, step {}: {}", record.rank, record.step, reason));
  };
  if (!fits(record.gradient.sketch, layout.k)) {
    return refuse(
        fmt::format("the gradient's sketch has {} bins, the layout {}", record.gradient.sketch.size(), layout.k));
  }
  if (!fits(record.reduced.sketch, layout.k_reduced)) {
    return refuse(fmt::format("the reduced gradient's sketch has {} bins, the layout {}", record.reduced.sketch.size(),
                              layout.k_reduced));
  }
  if (record.fingerprints.size() > layout.max_fingerprints || record.fingerprints.size() > record.fingerprint_count) {
    return refuse(fmt::format("{} batch fingerprints of {} in all, the layout has room for {}",
                              record.fingerprints.size(), record.fingerprint_count, layout.max_fingerprints));
  }
  if (record.rank >= record.world) return refuse(fmt::format("the rank is outside a world of {}", record.world));
  return Status::ok();
}

// Magic, version, size, checksum and layout: what must hold before any field is believed.
Status check_envelope(std::span<const std::byte> bytes, const RecordLayout& layout, std::uint32_t rank,
                      std::uint16_t& flags) {
  if (bytes.size() < kFixedBytes + kChecksumBytes) {
    return corrupt(rank,
                   fmt::format("{} bytes, the shortest record has {}", bytes.size(), kFixedBytes + kChecksumBytes));
  }
  ByteReader in(bytes);
  if (in.u32() != kMagic) return corrupt(rank, "it does not begin with LKSR, so it is not a Lockstep record");
  if (const std::uint16_t version = in.u16(); version != kRecordVersion) {
    return {StatusCode::kCorrupt,
            fmt::format("rank {} sent a record of version {}, this rank reads version {}: all ranks must run the same "
                        "lockstep version",
                        rank, version, kRecordVersion)};
  }
  flags = in.u16();
  const std::uint32_t total = in.u32();
  RecordLayout theirs;
  theirs.k = in.u32();
  theirs.k_reduced = in.u32();
  theirs.max_fingerprints = in.u32();
  theirs.seed = in.u64();
  if (theirs != layout) {
    return {StatusCode::kCorrupt,
            fmt::format("rank {} has layout k={} k_reduced={} fingerprints={} seed={}, this rank k={} k_reduced={} "
                        "fingerprints={} seed={}: all ranks must set the same options",
                        rank, theirs.k, theirs.k_reduced, theirs.max_fingerprints, theirs.seed, layout.k,
                        layout.k_reduced, layout.max_fingerprints, layout.seed)};
  }
  if ((flags & ~kAllFlags) != 0) return corrupt(rank, fmt::format("unknown flags {:#x}", flags));
  const std::size_t expected = packed_size(layout, (flags & kGradientSketch) != 0);
  if (total != bytes.size() || total != expected) {
    return corrupt(rank, fmt::format("{} bytes arrived, it says {}, its layout has {}", bytes.size(), total, expected));
  }
  const auto body = bytes.first(bytes.size() - kChecksumBytes);
  ByteReader tail(bytes.last(kChecksumBytes));
  if (tail.u64() != checksum(body)) return corrupt(rank, "its checksum does not match its content");
  return Status::ok();
}

Status check_fields(const Record& record, std::uint32_t rank) {
  if (record.rank != rank) return corrupt(rank, fmt::format("it says it is from rank {}", record.rank));
  if (record.rank >= record.world)
    return corrupt(rank, fmt::format("it says that the world has {} ranks", record.world));
  if (std::isnan(record.loss_sum) || std::isnan(record.token_loss_sum) || std::isnan(record.direction_sum_squares) ||
      std::isnan(record.update_rms)) {
    return corrupt(rank, "a sum of losses, the direction sum or the update's RMS is NaN");
  }
  if (Status status = check_gradient(record.gradient, rank, "local"); !status) return status;
  return check_gradient(record.reduced, rank, "reduced");
}

}  // namespace

const char* to_string(StateChannel channel) noexcept {
  switch (channel) {
    case StateChannel::kWeights:
      return "weights";
    case StateChannel::kBuffers:
      return "buffers";
    case StateChannel::kOptimizer:
      return "optimizer";
    case StateChannel::kRng:
      return "rng";
    case StateChannel::kConfig:
      return "config";
  }
  return "unknown";
}

std::size_t packed_size(const RecordLayout& layout, bool with_sketch) noexcept {
  return kFixedBytes + 8UL * layout.max_fingerprints + 4UL * layout.k_reduced + (with_sketch ? 4UL * layout.k : 0) +
         kChecksumBytes;
}

Status validate(const RecordLayout& layout) {
  if (!std::has_single_bit(layout.k) || layout.k < kMinSketchDim || layout.k > kMaxSketchDim) {
    return {StatusCode::kInvalidArgument, fmt::format("sketch dimension k = {}: must be a power of two from {} to {}",
                                                      layout.k, kMinSketchDim, kMaxSketchDim)};
  }
  if (!std::has_single_bit(layout.k_reduced) || layout.k_reduced > layout.k) {
    return {StatusCode::kInvalidArgument,
            fmt::format("k_reduced = {}: must be a power of two up to k = {}", layout.k_reduced, layout.k)};
  }
  if (layout.max_fingerprints > kMaxFingerprints) {
    return {StatusCode::kInvalidArgument,
            fmt::format("max_fingerprints = {}: must be at most {}", layout.max_fingerprints, kMaxFingerprints)};
  }
  return Status::ok();
}

Result<std::vector<std::byte>> pack(const Record& record, const RecordLayout& layout) {
  if (Status status = check_against_layout(record, layout); !status) return status;
  const bool with_sketch = !record.gradient.sketch.empty();
  std::vector<std::byte> bytes(packed_size(layout, with_sketch));
  const std::span<std::byte> body(bytes.data(), bytes.size() - kChecksumBytes);
  ByteWriter out(body);

  out.u32(kMagic);
  out.u16(kRecordVersion);
  out.u16(flags_of(record));
  out.u32(static_cast<std::uint32_t>(bytes.size()));
  out.u32(layout.k);
  out.u32(layout.k_reduced);
  out.u32(layout.max_fingerprints);
  out.u64(layout.seed);
  out.u32(record.rank);
  out.u32(record.world);
  out.u64(record.step);
  out.f64(record.loss_sum);
  out.u32(record.loss_count);
  out.u32(record.loss_nonfinite);
  out.f64(record.token_loss_sum);
  out.u64(record.tokens);
  write_gradient(out, record.gradient);
  write_gradient(out, record.reduced);
  out.f64(record.direction_sum_squares);
  std::uint64_t mask = 0;
  for (std::size_t i = 0; i < kStateChannels; ++i) mask |= static_cast<std::uint64_t>(record.state[i].observed) << i;
  out.u64(mask);
  for (const StateHash& state : record.state) out.u64(state.hash);
  out.u64(record.timings.step_ns);
  out.u64(record.timings.digest_ns);
  out.u64(record.timings.other_ns);
  out.u64(record.drops);
  out.u64(record.fingerprint_count);
  out.u32(static_cast<std::uint32_t>(record.fingerprints.size()));
  out.u32(0);
  write_sampler(out, record.sampler);
  out.f64(record.update_rms);
  for (std::uint64_t fingerprint : record.fingerprints) out.u64(fingerprint);
  out.zeros(8 * (layout.max_fingerprints - record.fingerprints.size()));
  write_sketch(out, record.reduced.sketch, layout.k_reduced);
  if (with_sketch) write_sketch(out, record.gradient.sketch, layout.k);

  ByteWriter tail(std::span<std::byte>(bytes).last(kChecksumBytes));
  tail.u64(checksum(body));
  return bytes;
}

Result<Record> unpack(std::span<const std::byte> bytes, const RecordLayout& layout, std::uint32_t rank) {
  std::uint16_t flags = 0;
  if (Status status = check_envelope(bytes, layout, rank, flags); !status) return status;

  ByteReader in(bytes);
  in.skip(4 + 2 + 2 + 4 + 4 * 3 + 8);
  Record record;
  record.rank = in.u32();
  record.world = in.u32();
  record.step = in.u64();
  record.loss_sum = in.f64();
  record.loss_count = in.u32();
  record.loss_nonfinite = in.u32();
  record.token_loss_sum = in.f64();
  record.tokens = in.u64();
  record.gradient.observed = (flags & kGradientObserved) != 0;
  record.reduced.observed = (flags & kReducedObserved) != 0;
  read_gradient(in, record.gradient);
  read_gradient(in, record.reduced);
  record.direction_sum_squares = in.f64();
  const std::uint64_t mask = in.u64();
  for (std::size_t i = 0; i < kStateChannels; ++i) {
    record.state[i].observed = ((mask >> i) & 1U) != 0;
    record.state[i].hash = in.u64();
  }
  record.timings.step_ns = in.u64();
  record.timings.digest_ns = in.u64();
  record.timings.other_ns = in.u64();
  record.drops = in.u64();
  record.fingerprint_count = in.u64();
  const std::uint32_t stored = in.u32();
  in.skip(4);
  read_sampler(in, flags, record.sampler);
  record.host = {(flags & kForwardDraws) != 0, (flags & kSampleIds) != 0, (flags & kTokenWeighted) != 0};
  record.update_rms = in.f64();
  if (stored > layout.max_fingerprints || stored > record.fingerprint_count) {
    return corrupt(rank, fmt::format("it says that it stores {} fingerprints of {}, its layout has room for {}", stored,
                                     record.fingerprint_count, layout.max_fingerprints));
  }
  record.fingerprints.resize(stored);
  for (std::uint64_t& fingerprint : record.fingerprints) fingerprint = in.u64();
  in.skip(8UL * (layout.max_fingerprints - stored));
  if (Status status = check_fields(record, rank); !status) return status;
  if (Status status =
          read_sketch(in, record.reduced.sketch, layout.k_reduced, (flags & kReducedSketch) != 0, rank, "reduced");
      !status) {
    return status;
  }
  if ((flags & kGradientSketch) != 0) {
    if (Status status = read_sketch(in, record.gradient.sketch, layout.k, true, rank, "local"); !status) return status;
  }
  return record;
}

}  // namespace lockstep
