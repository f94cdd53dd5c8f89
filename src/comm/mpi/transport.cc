// The MPI link: Issend and Improbe/Imrecv on a duplicated communicator, never a call that waits for a peer.
//
// Issend, not Isend: it completes only when the receiver took the message, so a stalled rank 0 meets a bounded number
// of envelopes instead of an ever longer queue inside MPI. Sends cannot be cancelled portably. What is still under way
// at close() is therefore left to MPI with its buffer, and the communicator is freed only when every goodbye has
// arrived: MPI may give the number of a freed communicator to another one, which would then receive our stray messages.
#include "comm/mpi/transport.h"

#include <fmt/format.h>

#include <deque>
#include <utility>

#include "comm/remote_transport.h"

namespace lockstep::comm {
namespace {

constexpr int kTag = 1;

Status check(int code, const char* call) {
  if (code == MPI_SUCCESS) return Status::ok();
  char text[MPI_MAX_ERROR_STRING] = "unknown error";
  int length = 0;
  MPI_Error_string(code, text, &length);
  return {StatusCode::kUnavailable, fmt::format("{}: {}", call, text)};
}

bool finalized() {
  int flag = 0;
  MPI_Finalized(&flag);
  return flag != 0;
}

class MpiLink final : public Link {
 public:
  MpiLink(MPI_Comm communicator, int rank, int size)
      : communicator_(communicator), rank_(rank), size_(size), sending_to_(static_cast<std::size_t>(size), 0) {}

  Result<bool> send(std::vector<std::byte>& packed) override {
    if (finalized()) return host_finalized();
    if (rank_ != 0) {
      if (sending_to_[0] >= kMaxInFlight) return false;
      if (Status failed = start_send(std::make_shared<const std::vector<std::byte>>(std::move(packed)), 0); !failed) {
        return failed;
      }
      return true;
    }
    const auto shared = std::make_shared<const std::vector<std::byte>>(std::move(packed));
    for (int peer = 1; peer < size_; ++peer) {
      // A peer that takes nothing loses publications; the others must not wait for it.
      if (sending_to_[static_cast<std::size_t>(peer)] >= kMaxInFlight) continue;
      if (Status failed = start_send(shared, peer); !failed) return failed;
    }
    return true;
  }

  Result<Progress> progress(const Arrival& arrival) override {
    if (finalized()) return host_finalized();
    Progress progress;
    if (Status failed = finish_sends(progress); !failed) return failed;
    if (Status failed = start_receives(); !failed) return failed;
    if (Status failed = finish_receives(arrival, progress); !failed) return failed;
    progress.in_flight = !sending_.empty() || !receiving_.empty();
    return progress;
  }

  void close(bool drained) noexcept override {
    if (finalized()) return;
    const bool clean = drained && receiving_.empty();
    for (Send& send : sending_) {
      MPI_Request_free(&send.request);
      // MPI may still read the buffer, so it must outlive us.
      static_cast<void>(new std::shared_ptr<const std::vector<std::byte>>(std::move(send.bytes)));
    }
    sending_.clear();
    if (!receiving_.empty()) static_cast<void>(new std::deque<Receive>(std::move(receiving_)));
    if (clean) MPI_Comm_free(&communicator_);
  }

 private:
  struct Send {
    MPI_Request request = MPI_REQUEST_NULL;
    std::shared_ptr<const std::vector<std::byte>> bytes;
    int peer = 0;
  };
  struct Receive {
    MPI_Request request = MPI_REQUEST_NULL;
    std::vector<std::byte> bytes;
    int peer = 0;
  };

  static Status host_finalized() {
    return {StatusCode::kFailedPrecondition, "the host called MPI_Finalize before it closed the transport"};
  }

  Status start_send(std::shared_ptr<const std::vector<std::byte>> bytes, int peer) {
    Send send;
    send.peer = peer;
    send.bytes = std::move(bytes);
    const int code = MPI_Issend(send.bytes->data(), static_cast<int>(send.bytes->size()), MPI_BYTE, peer, kTag,
                                communicator_, &send.request);
    if (Status failed = check(code, "MPI_Issend"); !failed) return failed;
    ++sending_to_[static_cast<std::size_t>(peer)];
    sending_.push_back(std::move(send));
    return Status::ok();
  }

  Status finish_sends(Progress& progress) {
    for (auto send = sending_.begin(); send != sending_.end();) {
      int complete = 0;
      if (Status failed = check(MPI_Test(&send->request, &complete, MPI_STATUS_IGNORE), "MPI_Test of a send");
          !failed) {
        return failed;
      }
      if (complete == 0) {
        ++send;
        continue;
      }
      --sending_to_[static_cast<std::size_t>(send->peer)];
      send = sending_.erase(send);
      progress.moved = true;
    }
    return Status::ok();
  }

  Status start_receives() {
    for (;;) {
      int found = 0;
      MPI_Message message = MPI_MESSAGE_NULL;
      MPI_Status status;
      if (Status failed =
              check(MPI_Improbe(MPI_ANY_SOURCE, kTag, communicator_, &found, &message, &status), "MPI_Improbe");
          !failed) {
        return failed;
      }
      if (found == 0) return Status::ok();
      int bytes = 0;
      if (Status failed = check(MPI_Get_count(&status, MPI_BYTE, &bytes), "MPI_Get_count"); !failed) return failed;
      Receive& receive = receiving_.emplace_back();
      receive.bytes.resize(static_cast<std::size_t>(bytes));
      receive.peer = status.MPI_SOURCE;
      const int code = MPI_Imrecv(receive.bytes.data(), bytes, MPI_BYTE, &message, &receive.request);
      if (Status failed = check(code, "MPI_Imrecv"); !failed) return failed;
    }
  }

  // A large message may complete after a later small one of the same peer: each peer's are handed on in their order.
  Status finish_receives(const Arrival& arrival, Progress& progress) {
    std::vector<bool> waits(static_cast<std::size_t>(size_), false);
    for (auto receive = receiving_.begin(); receive != receiving_.end();) {
      const auto peer = static_cast<std::size_t>(receive->peer);
      int complete = 0;
      if (!waits[peer]) {
        if (Status failed = check(MPI_Test(&receive->request, &complete, MPI_STATUS_IGNORE), "MPI_Test of a receive");
            !failed) {
          return failed;
        }
      }
      if (complete == 0) {
        waits[peer] = true;
        ++receive;
        continue;
      }
      Result<Envelope> envelope = unpack_envelope(receive->bytes, static_cast<std::uint32_t>(size_));
      receive = receiving_.erase(receive);
      if (!envelope) return envelope.error();
      if (Status failed = arrival(std::move(*envelope)); !failed) return failed;
      progress.moved = true;
    }
    return Status::ok();
  }

  MPI_Comm communicator_;
  int rank_;
  int size_;
  std::vector<std::size_t> sending_to_;  // sends under way, per peer
  std::deque<Send> sending_;
  std::deque<Receive> receiving_;
};

}  // namespace

Result<std::unique_ptr<Transport>> make_mpi_transport(MPI_Comm communicator) {
  int initialized = 0;
  MPI_Initialized(&initialized);
  if (initialized == 0 || finalized()) {
    return Status(StatusCode::kFailedPrecondition, "MPI transport: MPI is not initialised, or already finalised");
  }
  int level = MPI_THREAD_SINGLE;
  MPI_Query_thread(&level);
  if (level != MPI_THREAD_MULTIPLE) {
    return Status(StatusCode::kFailedPrecondition,
                  "MPI transport: MPI was initialised without MPI_THREAD_MULTIPLE, but the transport calls it from a "
                  "thread of its own while the host does too: call MPI_Init_thread with MPI_THREAD_MULTIPLE and check "
                  "the level that it provides");
  }
  MPI_Comm own = MPI_COMM_NULL;
  if (Status failed = check(MPI_Comm_dup(communicator, &own), "MPI transport: MPI_Comm_dup"); !failed) return failed;
  MPI_Comm_set_errhandler(own, MPI_ERRORS_RETURN);
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(own, &rank);
  MPI_Comm_size(own, &size);
  return RemoteTransport::start("MPI", std::make_unique<MpiLink>(own, rank, size), static_cast<std::uint32_t>(rank),
                                static_cast<std::uint32_t>(size));
}

}  // namespace lockstep::comm
