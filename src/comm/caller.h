// The rules of Transport that do not depend on the backend: who may call what, in which order, and the words for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "lockstep/status.h"

namespace lockstep::comm {

// Checks the calls of one transport. All calls come from one thread (transport.h), so there is no lock.
class Caller {
 public:
  explicit Caller(std::uint32_t rank) : rank_(rank) {}
  std::uint32_t rank() const noexcept { return rank_; }

  Status begin_gather(std::uint64_t step);  // refused when closed, or when `step` is not after the last one
  Status begin_publish() const;             // refused when closed, or on a rank other than 0
  Status begin_poll() const;                // refused when closed
  bool close() noexcept;                    // true on the first call

 private:
  Status refuse_closed(const char* call) const;
  std::uint32_t rank_;
  std::optional<std::uint64_t> last_step_;
  bool closed_ = false;
};

// Why a rank's record of `step` did not go out: no error of the transport, so it travels in GatheredStep::status.
Status analyst_left(std::uint32_t rank, std::uint64_t step);
Status analyst_behind(std::uint32_t rank, std::uint64_t step, std::size_t waiting);

}  // namespace lockstep::comm
