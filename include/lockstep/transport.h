// Transport: carries packed records to the analysing rank (rank 0) and its answers back.
//
// Lockstep ships no network engine; a transport rides on what the host has: threads of one process, MPI, a c10d process
// group, or an all-gather of the caller's own. All calls come from the monitor's background thread, in step order, and
// every call returns by its deadline: a lost or late peer is a Status that names it, never a hang.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "lockstep/export.h"
#include "lockstep/status.h"

namespace lockstep {

using Clock = std::chrono::steady_clock;

// What the analysing rank holds of one step after the deadline at the latest.
struct GatheredStep {
  std::uint64_t step = 0;
  std::vector<std::vector<std::byte>> messages;  // one per rank; meaningful where `arrived`
  std::vector<bool> arrived;
  std::uint64_t late = 0;  // messages of earlier steps that came after those steps were closed, and were dropped
  Status status;           // ok when all arrived; else names the missing ranks, the step and the time waited
};

class LOCKSTEP_API Transport {
 public:
  virtual ~Transport() = default;
  virtual std::uint32_t rank() const noexcept = 0;
  virtual std::uint32_t size() const noexcept = 0;

  // Sends this rank's message of `step` to rank 0. On rank 0 waits until all ranks' messages of that step are there or
  // the deadline passes, and returns them; messages of later steps are kept for their own call. On other ranks returns
  // once the message is handed over (then messages and arrived are empty). The error is for a transport that is broken
  // for good; a missing peer is no error but GatheredStep::status. Messages may be empty and of different sizes.
  virtual Result<GatheredStep> gather(std::uint64_t step, std::span<const std::byte> message,
                                      Clock::time_point deadline) = 0;

  // Rank 0: makes `message` available to the other ranks, without waiting for them. Others: refused.
  virtual Status publish(std::span<const std::byte> message) = 0;

  // Other ranks: the oldest message of rank 0 not yet taken, if one has come; never waits. Rank 0: always none.
  // A transport over a collective delivers publications with the next gather().
  virtual Result<std::optional<std::vector<std::byte>>> poll() = 0;

  // Releases peers and threads; later calls are refused. Idempotent; waits no longer than the deadline.
  virtual Status close(Clock::time_point deadline) = 0;
};

// N transports of one process, one per worker thread. They share a mailbox and may be used from different threads.
LOCKSTEP_API std::vector<std::unique_ptr<Transport>> make_in_process_transports(std::uint32_t size);

// The caller's own all-gather: copies `bytes` bytes of `send` from every rank into `receive` (size x bytes, in rank
// order). Called on the monitor's thread, by all ranks, once per gathered step. Returns 0 when it worked; it must bound
// its own waiting, since a collective of the host cannot be abandoned from outside.
using AllGather = std::function<int(const void* send, std::size_t bytes, void* receive)>;

struct CallbackTransportOptions {
  std::uint32_t rank = 0;
  std::uint32_t size = 1;
  std::size_t slot_bytes = 0;  // of one rank's slot: the largest message plus room for publications of rank 0
};
LOCKSTEP_API Result<std::unique_ptr<Transport>> make_callback_transport(const CallbackTransportOptions& options,
                                                                        AllGather all_gather);

}  // namespace lockstep
