// Mailbox of the analysing rank: matches messages by step, whatever order ranks, threads or networks bring them in.
//
// All transports share it, so that early, late, skipped and lost records mean the same on each. It knows nothing of
// how bytes travel. A backend calls deliver() for what arrives, and the caller's thread waits in collect().
//
// It relies on one property of every backend: the messages of one rank arrive in the order of their steps. So a
// message of a later step proves that the missing one will never come, and nobody needs to wait for it.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/transport.h"

namespace lockstep::comm {

// Steps that one rank may be ahead of the analysing rank before its messages are refused. The host's own reduction
// keeps ranks within a step or two of each other, so this bounds memory in a broken run and is not met in a sound one.
inline constexpr std::size_t kMaxEarlySteps = 256;

// After so many deadlines in a row without any message of a rank, steps no longer wait for it. One message of any step
// brings it back.
inline constexpr std::uint32_t kMissesUntilPresumedLost = 2;

// Thread-safe.
class Mailbox {
 public:
  explicit Mailbox(std::uint32_t size);

  enum class Delivery { kKept, kLate, kFull, kClosed };

  // `message` of `rank` for `step`. Waits until `deadline` for room when the rank is too far ahead. What is not kept is
  // counted in the next GatheredStep::late.
  Delivery deliver(std::uint32_t rank, std::uint64_t step, std::vector<std::byte> message, Clock::time_point deadline);

  // The rank is alive but has no message to give.
  void mark_heard(std::uint32_t rank);

  // The rank said goodbye or is known to be dead: it is not waited for, unless it is heard again.
  void mark_left(std::uint32_t rank);

  // Waits until every rank's message of `step` is there, or is known not to come, or the deadline passes. Closes the
  // step: what comes for it afterwards is late.
  GatheredStep collect(std::uint64_t step, Clock::time_point deadline);

  // Ranks that have neither left nor been presumed lost, rank 0 excepted.
  std::vector<std::uint32_t> present_peers() const;

  // Every rank but rank 0 has left, so no message can be under way.
  bool all_left() const;

  // Ends every wait, now and later.
  void close();

 private:
  struct Peer {
    std::map<std::uint64_t, std::vector<std::byte>> early;  // by step; holds the open step too
    std::optional<std::uint64_t> newest;                    // step of the last message, kept or not
    std::uint32_t misses = 0;                               // deadlines in a row without any message
    bool left = false;
  };

  bool has_skipped(const Peer& peer, std::uint64_t step) const;
  bool settled(const Peer& peer, std::uint64_t step) const;
  void drop_before(std::uint64_t step);
  Status explain(const GatheredStep& gathered, std::chrono::nanoseconds waited) const;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Peer> peers_;
  std::uint64_t open_step_ = 0;  // earlier ones are closed
  std::uint64_t late_ = 0;       // since the last collect()
  bool closed_ = false;
};

// "rank 3", "ranks 3, 5": for messages. Long lists are cut, with their count.
std::string name_ranks(const std::vector<std::uint32_t>& ranks);

}  // namespace lockstep::comm
