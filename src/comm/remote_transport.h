// RemoteTransport: the Transport between processes, over any Link.
//
// A carrier thread alone calls the Link. The caller's thread only exchanges bytes with it and waits on conditions with
// a deadline, so that a foreign library that blocks can cost a deadline but never hang a call. The carrier sleeps when
// nothing is under way; while it waits for a peer it looks in growing intervals instead of spinning, because the cores
// belong to the training. A carrier that is stuck inside the foreign library at close() is left behind with its state.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "comm/caller.h"
#include "comm/link.h"
#include "comm/mailbox.h"
#include "comm/publications.h"
#include "lockstep/transport.h"

namespace lockstep::comm {

class RemoteTransport final : public Transport {
 public:
  // `name`: of the link, for messages ("MPI"). Fails when the system gives no thread.
  static Result<std::unique_ptr<Transport>> start(std::string name, std::unique_ptr<Link> link, std::uint32_t rank,
                                                  std::uint32_t size);
  RemoteTransport(std::string name, std::unique_ptr<Link> link, std::uint32_t rank, std::uint32_t size);
  ~RemoteTransport() override;  // closes with a short deadline

  std::uint32_t rank() const noexcept override { return caller_.rank(); }
  std::uint32_t size() const noexcept override { return size_; }
  Result<GatheredStep> gather(std::uint64_t step, std::span<const std::byte> message,
                              Clock::time_point deadline) override;
  Status publish(std::span<const std::byte> message) override;
  Result<std::optional<std::vector<std::byte>>> poll() override;

  // Sends what is queued and says goodbye. Rank 0 also waits, up to the deadline, for the goodbyes of the ranks that it
  // has not given up, so that their last envelopes do not meet a closed link.
  Status close(Clock::time_point deadline) override;

 private:
  struct Carrier;
  GatheredStep send_record(std::uint64_t step, std::span<const std::byte> message, Clock::time_point deadline);
  GatheredStep collect(std::uint64_t step, std::span<const std::byte> message, Clock::time_point deadline);

  Caller caller_;
  std::uint32_t size_;
  std::shared_ptr<Carrier> carrier_;  // shared with the thread, which may outlive this object
  std::thread thread_;
  std::uint64_t published_ = 0;
};

}  // namespace lockstep::comm
