#include "lockstep/digest.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <memory>
#include <new>
#include <thread>

#include <fmt/format.h>

#include "digest/cpu/kernels.h"
#include "digest/keys.h"
#include "digest/worker_pool.h"

namespace lockstep {
namespace {

using digests::cpu::Lane;

constexpr std::uint32_t kMaxThreads = 256;
// Below this a thread takes longer to wake than to read its share.
constexpr std::uint64_t kMinShareBytes = 512 * 1024;

bool readable(const Segment& segment) noexcept {
  return size_of(segment.dtype) != 0 && (segment.data != nullptr || segment.count == 0);
}

std::uint32_t shares_of(const Segment& segment, std::uint32_t threads) noexcept {
  const std::uint64_t useful = segment.count * size_of(segment.dtype) / kMinShareBytes;
  return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(useful, 1, threads));
}

// Part `share` of `shares`, cut between hash tiles so that no thread pays for a partial tile in the middle. The cuts
// depend on nothing but the arguments: the same call gives the same sums, bit for bit.
Segment share_of(const Segment& segment, std::uint32_t share, std::uint32_t shares) noexcept {
  const std::uint64_t size = size_of(segment.dtype);
  const std::uint64_t per_tile = digests::kTileBytes / size;
  const std::uint64_t first_tile = segment.offset / per_tile;
  const std::uint64_t end = segment.offset + segment.count;
  const std::uint64_t tiles = (end + per_tile - 1) / per_tile - first_tile;
  const auto cut = [&](std::uint32_t i) {
    if (i == shares) return end;
    return std::max(segment.offset, (first_tile + tiles / shares * i + tiles % shares * i / shares) * per_tile);
  };
  Segment part = segment;
  part.offset = cut(share);
  part.count = cut(share + 1) - part.offset;
  part.data = static_cast<const unsigned char*>(segment.data) + (part.offset - segment.offset) * size;
  return part;
}

struct FreeAligned {
  void operator()(void* p) const noexcept { ::operator delete (p, std::align_val_t{digests::cpu::kBinAlignment}); }
};

template <class T>
std::unique_ptr<T[], FreeAligned> make_bins(std::size_t count) {
  void* p = ::operator new (count * sizeof(T), std::align_val_t{digests::cpu::kBinAlignment});
  return std::unique_ptr<T[], FreeAligned>(new (p) T[count]());
}

// The bins of one thread; lanes are lines apart, so that threads do not share cache lines.
struct alignas(2 * digests::cpu::kBinAlignment) OwnedLane {
  Lane lane;
  std::unique_ptr<float[], FreeAligned> bins;
  std::unique_ptr<double[], FreeAligned> wide;

  explicit OwnedLane(const DigestOptions& options) {
    lane.seed = options.seed;
    if (!options.sketch) return;
    lane.k = options.k;
    bins = make_bins<float>(options.k);
    wide = make_bins<double>(options.k);
    lane.bins = bins.get();
    lane.wide = wide.get();
  }

  void reset() noexcept {
    std::fill_n(lane.bins, lane.k, 0.0f);
    std::fill_n(lane.wide, lane.k, 0.0);
    lane.sum_squares = lane.max_abs = 0;
    lane.nonfinite = lane.hash = lane.pending = 0;
  }
};

}  // namespace

void Digest::merge(const Digest& other) {
  count += other.count;
  sum_squares += other.sum_squares;
  max_abs = std::max(max_abs, other.max_abs);
  nonfinite += other.nonfinite;
  hash += other.hash;
  if (other.sketch.empty()) return;
  if (sketch.empty()) {
    sketch = other.sketch;
    return;
  }
  assert(sketch.size() == other.sketch.size());
  const std::size_t bins = std::min(sketch.size(), other.sketch.size());
  for (std::size_t i = 0; i < bins; ++i) sketch[i] += other.sketch[i];
}

Status validate(const DigestOptions& options) {
  if (!std::has_single_bit(options.k) || options.k < kMinSketchDim || options.k > kMaxSketchDim) {
    return {StatusCode::kInvalidArgument, fmt::format("digest option k is {}: it must be a power of two from {} to {}",
                                                      options.k, kMinSketchDim, kMaxSketchDim)};
  }
  if (options.threads < 1 || options.threads > kMaxThreads) {
    return {StatusCode::kInvalidArgument,
            fmt::format("digest option threads is {}: it must be from 1 to {}", options.threads, kMaxThreads)};
  }
  return Status::ok();
}

struct DigestAccumulator::State {
  explicit State(const DigestOptions& valid) : options(valid), pool(valid.threads) {
    lanes.reserve(options.threads);
    for (std::uint32_t i = 0; i < options.threads; ++i) lanes.emplace_back(options);
    if (options.sketch) digest.sketch.assign(options.k, 0.0);
  }

  DigestOptions options;
  std::vector<OwnedLane> lanes;
  std::uint64_t count = 0;
  Digest digest;
  Segment segment;  // what the pool works on
  std::uint32_t shares = 1;
  digests::WorkerPool pool;  // last: its threads end before the rest does
};

DigestAccumulator::DigestAccumulator(const DigestOptions& options)
    : state_(new State(validate(options) ? options : DigestOptions{})) {}

DigestAccumulator::~DigestAccumulator() {
  delete state_;
}

DigestAccumulator::DigestAccumulator(DigestAccumulator&& other) noexcept
    : state_(std::exchange(other.state_, nullptr)) {}

DigestAccumulator& DigestAccumulator::operator=(DigestAccumulator&& other) noexcept {
  std::swap(state_, other.state_);
  return *this;
}

bool DigestAccumulator::add(const Segment& segment) noexcept {
  if (!readable(segment)) return false;
  if (segment.count == 0) return true;
  state_->count += segment.count;
  state_->shares = shares_of(segment, state_->options.threads);
  if (state_->shares == 1) {
    digests::cpu::digest_run(segment, state_->lanes[0].lane);
    return true;
  }
  state_->segment = segment;
  state_->pool.run(
      state_->shares,
      [](void* context, std::uint32_t share) noexcept {
        auto& state = *static_cast<State*>(context);
        digests::cpu::digest_run(share_of(state.segment, share, state.shares), state.lanes[share].lane);
      },
      state_);
  return true;
}

const Digest& DigestAccumulator::result() noexcept {
  Digest& digest = state_->digest;
  digest.count = state_->count;
  digest.sum_squares = digest.max_abs = 0;
  digest.nonfinite = digest.hash = 0;
  std::fill(digest.sketch.begin(), digest.sketch.end(), 0.0);
  for (OwnedLane& owned : state_->lanes) {
    Lane& lane = owned.lane;
    digests::cpu::flush_bins(lane);
    digest.sum_squares += lane.sum_squares;
    digest.max_abs = std::max(digest.max_abs, lane.max_abs);
    digest.nonfinite += lane.nonfinite;
    digest.hash += lane.hash;
    for (std::size_t i = 0; i < digest.sketch.size(); ++i) digest.sketch[i] += lane.wide[i];
  }
  return digest;
}

void DigestAccumulator::reset() noexcept {
  for (OwnedLane& owned : state_->lanes) owned.reset();
  state_->count = 0;
}

const DigestOptions& DigestAccumulator::options() const noexcept {
  return state_->options;
}

Result<Digest> digest(std::span<const Segment> segments, const DigestOptions& options) {
  if (Status status = validate(options); !status) return status;
  DigestAccumulator accumulator(options);
  for (std::size_t i = 0; i < segments.size(); ++i) {
    if (accumulator.add(segments[i])) continue;
    const Segment& segment = segments[i];
    return Status(StatusCode::kInvalidArgument,
                  size_of(segment.dtype) == 0
                      ? fmt::format("segment {} (parameter {}) has dtype {}, which is none of DType", i,
                                    segment.parameter, static_cast<int>(segment.dtype))
                      : fmt::format("segment {} (parameter {}) has {} elements but no data", i, segment.parameter,
                                    segment.count));
  }
  return accumulator.result();
}

std::uint64_t content_hash(const Segment& segment, std::uint32_t threads) noexcept {
  if (!readable(segment) || segment.count == 0) return 0;
  struct Shared {
    const Segment& segment;
    std::uint32_t shares;
    std::uint64_t hashes[kMaxThreads];
  } shared{segment, shares_of(segment, std::clamp(threads, 1u, kMaxThreads)), {}};
  if (shared.shares == 1) return digests::cpu::hash_run(segment);
  const auto work = [](void* context, std::uint32_t share) noexcept {
    auto& shared = *static_cast<Shared*>(context);
    shared.hashes[share] = digests::cpu::hash_run(share_of(shared.segment, share, shared.shares));
  };
  try {
    digests::WorkerPool pool(shared.shares);
    pool.run(shared.shares, work, &shared);
  } catch (const std::bad_alloc&) {
    return digests::cpu::hash_run(segment);
  }
  std::uint64_t hash = 0;
  for (std::uint32_t i = 0; i < shared.shares; ++i) hash += shared.hashes[i];
  return hash;
}

std::vector<double> fold_sketch(std::span<const double> sketch, std::uint32_t k) {
  if (k == 0 || sketch.size() % k != 0) return {};
  std::vector<double> folded(k, 0.0);
  for (std::size_t i = 0; i < sketch.size(); ++i) folded[i % k] += sketch[i];
  return folded;
}

const char* digest_isa() noexcept {
  return digests::cpu::isa_name();
}

}  // namespace lockstep
