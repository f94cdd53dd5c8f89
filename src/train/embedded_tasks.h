// The rows of the embedded data set: small tasks that a small model can learn, made from a seed.
//
// The same seed gives the same bytes on every machine and compiler: own random numbers, integers only, no locale. The
// rows imitate the spread of a real instruction set (many short answers, some long ones, easy and hard families); they
// teach nobody anything about the world.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "train/alpaca.h"

namespace lockstep::train {

// splitmix64: a fixed sequence for a seed.
class TaskRandom {
 public:
  explicit TaskRandom(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() noexcept;
  // In [low, high]. The bias of the modulo is below 2^-50 for the ranges used here.
  std::int64_t between(std::int64_t low, std::int64_t high) noexcept;
  bool chance(int percent) noexcept { return between(1, 100) <= percent; }
  template <class Container>
  const auto& pick(const Container& items) noexcept {
    return items[static_cast<std::size_t>(between(0, static_cast<std::int64_t>(std::size(items)) - 1))];
  }

 private:
  std::uint64_t state_;
};

// `count` rows in random order of families. Repeats are avoided where a family still has something new to say, so only
// a few natural duplicates remain.
std::vector<Row> make_embedded_rows(std::size_t count, std::uint64_t seed);

}  // namespace lockstep::train
