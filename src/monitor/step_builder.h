// Folds what the training thread shows of one step into its record. Knows nothing of threads, transports or failure
// policy: Monitor has those. Not thread-safe.
#pragma once

#include <cstdint>
#include <span>

#include "lockstep/digest.h"
#include "lockstep/record.h"

namespace lockstep::monitor {

class StepBuilder {
 public:
  StepBuilder(std::uint32_t rank, std::uint32_t world, const RecordLayout& layout, std::uint32_t threads);

  // Forgets whatever was open and starts `step`. Without `sketch` the record will be short.
  void begin(std::uint64_t step, bool sketch) noexcept;

  // False when the segment is malformed; nothing changes then.
  bool add_gradient(const Segment& segment) noexcept;
  bool add_reduced(const Segment& segment) noexcept;
  // False when the digest has a sketch that does not fold to the layout's dimension, or memory is out.
  bool add_gradient(const Digest& digest) noexcept;
  bool add_reduced(const Digest& digest) noexcept;
  bool add_direction_sum(const Segment& segment) noexcept;
  bool add_state(StateChannel channel, const Segment& segment) noexcept;

  void add_state(StateChannel channel, std::uint64_t hash) noexcept;
  void add_batch(std::span<const std::uint64_t> fingerprints) noexcept;
  void add_loss(double loss, std::uint64_t tokens) noexcept;

  double gradient_sum_squares() noexcept;

  // The record of the open step, without its timings. May throw std::bad_alloc.
  Record finish();

 private:
  DigestAccumulator& gradient() noexcept { return sketch_ ? gradient_sketched_ : gradient_plain_; }
  DigestAccumulator& reduced() noexcept { return sketch_ ? reduced_sketched_ : reduced_plain_; }

  RecordLayout layout_;
  std::uint32_t threads_;
  bool sketch_ = true;
  Record record_;  // scalars of the open step; its vectors keep their capacity
  DigestAccumulator gradient_sketched_;
  DigestAccumulator gradient_plain_;
  DigestAccumulator reduced_sketched_;
  DigestAccumulator reduced_plain_;
  DigestAccumulator direction_;
  bool direction_seen_ = false;
  Digest given_gradient_;  // merged from digests that were made elsewhere
  Digest given_reduced_;
};

}  // namespace lockstep::monitor
