// A Link inside one process, for the tests of RemoteTransport: it can be made to fail, to block and to have no room.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "comm/link.h"

namespace lockstep::comm {

// The wires between the ranks of a group, and the faults on them.
struct MemoryWires {
  explicit MemoryWires(std::uint32_t size) : inbox(size) {}

  std::mutex mutex;
  std::condition_variable unblocked;
  std::vector<std::deque<std::vector<std::byte>>> inbox;  // by receiver
  bool blocked = false;                                   // progress() does not return
  std::atomic<bool> broken = false;                       // progress() fails
  std::atomic<bool> no_room = false;                      // send() takes nothing
  std::atomic<int> passes = 0;                            // of progress(), over all ranks
};

class MemoryLink final : public Link {
 public:
  MemoryLink(std::shared_ptr<MemoryWires> wires, std::uint32_t rank) : wires_(std::move(wires)), rank_(rank) {}

  Result<bool> send(std::vector<std::byte>& packed) override {
    if (wires_->no_room) return false;
    const std::lock_guard lock(wires_->mutex);
    if (rank_ != 0) {
      wires_->inbox[0].push_back(std::move(packed));
    } else {
      for (std::size_t peer = 1; peer < wires_->inbox.size(); ++peer) wires_->inbox[peer].push_back(packed);
    }
    return true;
  }

  Result<Progress> progress(const Arrival& arrival) override {
    if (wires_->broken) return Status(StatusCode::kUnavailable, "the wire is cut");
    std::deque<std::vector<std::byte>> arrived;
    {
      std::unique_lock lock(wires_->mutex);
      wires_->unblocked.wait(lock, [&] { return !wires_->blocked; });
      arrived.swap(wires_->inbox[rank_]);
    }
    for (const std::vector<std::byte>& packed : arrived) {
      Result<Envelope> envelope = unpack_envelope(packed, static_cast<std::uint32_t>(wires_->inbox.size()));
      if (!envelope) return envelope.error();
      if (Status failed = arrival(std::move(*envelope)); !failed) return failed;
    }
    ++wires_->passes;
    return Progress{.moved = !arrived.empty(), .in_flight = false};
  }

  void close(bool) noexcept override {}

 private:
  std::shared_ptr<MemoryWires> wires_;
  std::uint32_t rank_;
};

}  // namespace lockstep::comm
