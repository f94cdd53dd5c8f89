// Link: what a backend between processes must offer. RemoteTransport does all the rest.
//
// All calls come from the one carrier thread of the transport. No call waits for a peer. An error means that the link
// is broken for good. Implementations catch the exceptions of the library that they call.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "comm/envelope.h"
#include "lockstep/status.h"

namespace lockstep::comm {

// Envelopes that a rank may have under way to rank 0 before send() says that there is no room.
inline constexpr std::size_t kMaxInFlight = 64;

class Link {
 public:
  virtual ~Link() = default;

  // Takes a packed envelope (moves from it) on its way: from rank 0 to every other rank, from the others to rank 0.
  // False: no room now, `packed` is untouched. Envelopes of one sender arrive in the order of sending; those of rank 0
  // may be dropped for a peer that does not take them (the numbers in the envelopes show it).
  virtual Result<bool> send(std::vector<std::byte>& packed) = 0;

  using Arrival = std::function<Status(Envelope&&)>;

  struct Progress {
    bool moved = false;      // something arrived or left
    bool in_flight = false;  // something is under way that needs further calls
  };
  virtual Result<Progress> progress(const Arrival& arrival) = 0;

  // Last call. `drained`: the goodbye of every peer has arrived, so nothing can come any more.
  virtual void close(bool drained) noexcept = 0;
};

}  // namespace lockstep::comm
