// What rides along with the gradient's reduction, in a few floats behind it: each rank's loss and token counts, and
// whether somebody wants to stop. One collective per step then serves all, and every process takes the same decisions.
//
// Each rank writes its own slots and leaves zeros in the others', so that a sum over ranks is a gather. A double
// travels as two floats (its rounded value and the rest): exact to 48 bits, which counts never and losses barely need.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace lockstep::train {

struct RankStep {
  double loss = 0;
  std::int64_t tokens = 0;
  std::int64_t response_tokens = 0;
};

class StepTail {
 public:
  static constexpr std::size_t size(std::uint32_t world) noexcept { return 1 + kPerRank * std::size_t{world}; }

  // Over the last size(world) floats of a reduction buffer.
  StepTail(std::span<float> buffer, std::uint32_t world) noexcept : slots_(buffer.last(size(world))) {}

  void set(std::uint32_t rank, const RankStep& values) noexcept;
  void ask_to_stop() noexcept { slots_[0] = 1; }

  RankStep get(std::uint32_t rank) const noexcept;
  bool stop_asked() const noexcept { return slots_[0] != 0; }

 private:
  static constexpr std::size_t kPerRank = 6;
  std::span<float> slots_;
};

}  // namespace lockstep::train
