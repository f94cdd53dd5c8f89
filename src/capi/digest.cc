#include <fmt/format.h>

#include <algorithm>

#include "capi/error.h"
#include "capi/segment.h"

namespace lockstep::capi {
namespace {

Status check_segments(const lockstep_segment* segments, std::size_t count) {
  if (segments == nullptr && count > 0) return {StatusCode::kInvalidArgument, "segments is NULL"};
  for (std::size_t i = 0; i < count; ++i) {
    const Segment segment = to_segment(segments[i]);
    if (size_of(segment.dtype) == 0) {
      return {StatusCode::kInvalidArgument,
              fmt::format("segment {}: no dtype has the number {}", i, segments[i].dtype)};
    }
    if (segment.data == nullptr && segment.count > 0) {
      return {StatusCode::kInvalidArgument, fmt::format("segment {}: {} elements at NULL", i, segment.count)};
    }
  }
  return Status::ok();
}

Status digest_segments(const lockstep_segment* segments, std::size_t count, const lockstep_digest_options* c_options,
                       lockstep_digest* out, double* sketch) {
  lockstep_digest_options theirs;
  lockstep_digest_options_init(&theirs);
  if (c_options != nullptr) {
    if (Status status = read_sized(c_options, theirs, "options"); !status) return status;
  }
  if (Status status = check_segments(segments, count); !status) return status;
  DigestOptions options;
  options.k = theirs.k;
  options.threads = theirs.threads;
  options.seed = theirs.seed;
  options.sketch = sketch != nullptr;
  if (Status status = validate(options); !status) return status;
  DigestAccumulator accumulator(options);
  for (std::size_t i = 0; i < count; ++i) accumulator.add(to_segment(segments[i]));
  const Digest& digest = accumulator.result();
  if (sketch != nullptr) std::copy(digest.sketch.begin(), digest.sketch.end(), sketch);
  const lockstep_digest result = {sizeof(lockstep_digest), digest.count,     digest.sum_squares,
                                  digest.max_abs,          digest.nonfinite, digest.hash};
  return write_sized(result, out, "out");
}

}  // namespace
}  // namespace lockstep::capi

void lockstep_digest_options_init(lockstep_digest_options* options) {
  if (options == nullptr) return;
  const lockstep::DigestOptions defaults;
  *options = {sizeof(lockstep_digest_options), defaults.k, defaults.threads, defaults.seed};
}

lockstep_status lockstep_digest_segments(const lockstep_segment* segments, size_t segment_count,
                                         const lockstep_digest_options* options, lockstep_digest* out, double* sketch) {
  return lockstep::capi::guarded(
      [&] { return lockstep::capi::digest_segments(segments, segment_count, options, out, sketch); });
}

lockstep_status lockstep_hash_segments(const lockstep_segment* segments, size_t segment_count, uint32_t threads,
                                       uint64_t* out) {
  return lockstep::capi::guarded([&]() -> lockstep::Status {
    if (out == nullptr) return {lockstep::StatusCode::kInvalidArgument, "out is NULL"};
    if (auto status = lockstep::capi::check_segments(segments, segment_count); !status) return status;
    uint64_t hash = 0;
    for (size_t i = 0; i < segment_count; ++i) {
      hash += lockstep::content_hash(lockstep::capi::to_segment(segments[i]), threads == 0 ? 1 : threads);
    }
    *out = hash;
    return {};
  });
}
