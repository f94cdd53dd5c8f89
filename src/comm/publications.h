// What rank 0 published and this rank has not taken yet: a bounded queue that counts what it lost.
//
// Publications are numbered by rank 0. When the queue is full the oldest goes, since the newest tells most of a run's
// state; a gap in the numbers, wherever on the way it arose, is counted when the next one is taken. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "lockstep/status.h"

namespace lockstep::comm {

inline constexpr std::size_t kMaxPublications = 64;

struct Publication {
  std::uint64_t number = 0;
  std::vector<std::byte> message;
};

class Publications {
 public:
  // Keeps it; when full, the oldest goes first. True when nothing had to go.
  bool push(Publication publication);
  std::optional<Publication> pop();
  bool empty() const noexcept { return queue_.empty(); }
  const Publication& front() const { return queue_.front(); }

  // Publications that can no longer be taken, since the last call.
  std::uint64_t take_lost() noexcept { return std::exchange(lost_, 0); }

  // Ok when nothing was lost since the last call; else says how many `rank` lost and why.
  Status report_lost(std::uint32_t rank);

 private:
  std::deque<Publication> queue_;
  std::uint64_t expected_ = 0;
  std::uint64_t lost_ = 0;
};

}  // namespace lockstep::comm
