#include "comm/remote_transport.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>
#include <utility>

namespace lockstep::comm {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

// Intervals of looking while something is under way. The longest adds to the latency of a step; the shortest keeps a
// healthy group fast.
constexpr microseconds kShortestPause{50};
constexpr microseconds kLongestPauseCollecting{1000};
constexpr microseconds kLongestPause{5000};
constexpr milliseconds kDestructorPatience{500};
constexpr std::size_t kMaxMessageBytes = std::size_t{1} << 30;  // MPI counts are 32-bit

}  // namespace

// The thread's own state. `link` and `held` are the thread's alone; the rest is under `mutex`.
struct RemoteTransport::Carrier {
  Carrier(std::string name_in, std::unique_ptr<Link> link_in, std::uint32_t rank_in, std::uint32_t size)
      : name(std::move(name_in)), rank(rank_in), link(std::move(link_in)), mailbox(size) {}

  void run();
  bool has_work() const { return stopping || collecting || look || in_flight || !outgoing.empty() || !held.empty(); }
  bool may_stop() const;
  Result<Link::Progress> pass();
  Status arrive(Envelope&& envelope);
  void break_down(const Status& why);

  const std::string name;
  const std::uint32_t rank;
  std::unique_ptr<Link> link;
  std::vector<std::byte> held;  // taken from `outgoing`, not yet taken by the link
  Mailbox mailbox;              // used on rank 0

  std::mutex mutex;
  std::condition_variable wake;     // the carrier waits on it
  std::condition_variable changed;  // the caller waits on it
  std::deque<std::vector<std::byte>> outgoing;
  Publications publications;  // used on the other ranks
  Status broken;
  Clock::time_point stop_at;  // when stopping
  std::uint64_t passes_wanted = 0;
  std::uint64_t passes_done = 0;
  bool collecting = false;
  bool look = false;  // one pass is wanted
  bool in_flight = false;
  bool analyst_gone = false;  // rank 0 said goodbye
  bool stopping = false;
  bool said_goodbye = false;
  bool done = false;
};

void RemoteTransport::Carrier::run() {
  microseconds pause = kShortestPause;
  std::unique_lock lock(mutex);
  for (;;) {
    wake.wait(lock, [&] { return has_work(); });
    if (broken.is_ok() && stopping && !said_goodbye && outgoing.empty()) {
      outgoing.push_back(pack(EnvelopeKind::kGoodbye, rank, 0, {}));
      said_goodbye = true;
    }
    if (stopping && (!broken.is_ok() || may_stop() || Clock::now() >= stop_at)) break;
    if (!broken.is_ok()) {
      // Nothing can move any more; only the caller's close() ends the thread.
      outgoing.clear();
      held.clear();
      collecting = look = in_flight = false;
      continue;
    }
    const std::uint64_t wanted = passes_wanted;
    look = false;
    if (held.empty() && !outgoing.empty()) {
      held = std::move(outgoing.front());
      outgoing.pop_front();
    }
    lock.unlock();
    const Result<Link::Progress> progress = pass();
    lock.lock();
    if (!progress) {
      break_down(progress.error());
      continue;
    }
    in_flight = progress->in_flight;
    passes_done = wanted;
    changed.notify_all();
    if (progress->moved) {
      pause = kShortestPause;
    } else if (has_work()) {
      wake.wait_for(lock, pause, [&] { return look || (stopping && !said_goodbye); });
      pause = std::min(pause * 2, collecting ? kLongestPauseCollecting : kLongestPause);
    }
  }
  const bool drained = broken.is_ok() && (rank == 0 ? mailbox.all_left() : analyst_gone);
  lock.unlock();
  link->close(drained);
  lock.lock();
  done = true;
  changed.notify_all();
}

// Rank 0 stays for the peers that may still send; another rank until its own envelopes are taken.
bool RemoteTransport::Carrier::may_stop() const {
  if (!said_goodbye || !outgoing.empty() || !held.empty()) return false;
  return rank == 0 ? mailbox.present_peers().empty() : (!in_flight || analyst_gone);
}

Result<Link::Progress> RemoteTransport::Carrier::pass() {
  bool sent = false;
  if (!held.empty()) {
    Result<bool> taken = link->send(held);
    if (!taken) return taken.error();
    sent = *taken;
    if (sent) held.clear();
  }
  Result<Link::Progress> progress = link->progress([this](Envelope&& envelope) { return arrive(std::move(envelope)); });
  if (progress && sent) progress->moved = true;
  return progress;
}

Status RemoteTransport::Carrier::arrive(Envelope&& envelope) {
  if (rank == 0 && envelope.rank != 0 && envelope.kind == EnvelopeKind::kRecord) {
    // The carrier must not wait for room: what does not fit is counted by the mailbox.
    mailbox.deliver(envelope.rank, envelope.number, std::move(envelope.payload), Clock::now());
    return Status::ok();
  }
  if (rank == 0 && envelope.rank != 0 && envelope.kind == EnvelopeKind::kGoodbye) {
    mailbox.mark_left(envelope.rank);
    return Status::ok();
  }
  const std::lock_guard lock(mutex);
  if (rank != 0 && envelope.rank == 0 && envelope.kind == EnvelopeKind::kPublication) {
    publications.push({envelope.number, std::move(envelope.payload)});
    return Status::ok();
  }
  if (rank != 0 && envelope.rank == 0 && envelope.kind == EnvelopeKind::kGoodbye) {
    analyst_gone = true;
    return Status::ok();
  }
  return {StatusCode::kCorrupt, fmt::format("rank {} got an envelope of kind {} from rank {}, which never sends one",
                                            rank, static_cast<int>(envelope.kind), envelope.rank)};
}

void RemoteTransport::Carrier::break_down(const Status& why) {
  broken = Status(why.code(), fmt::format("{}: {}", name, why.message()));
  mailbox.close();
  changed.notify_all();
}

Result<std::unique_ptr<Transport>> RemoteTransport::start(std::string name, std::unique_ptr<Link> link,
                                                          std::uint32_t rank, std::uint32_t size) {
  try {
    return std::unique_ptr<Transport>(std::make_unique<RemoteTransport>(name, std::move(link), rank, size));
  } catch (const std::system_error& error) {
    return Status(StatusCode::kUnavailable,
                  fmt::format("rank {}: no thread for the transport over {}: {}", rank, name, error.what()));
  }
}

RemoteTransport::RemoteTransport(std::string name, std::unique_ptr<Link> link, std::uint32_t rank, std::uint32_t size)
    : caller_(rank),
      size_(size),
      carrier_(std::make_shared<Carrier>(std::move(name), std::move(link), rank, size)),
      thread_([carrier = carrier_] { carrier->run(); }) {}

RemoteTransport::~RemoteTransport() {
  const Status ignored = close(Clock::now() + kDestructorPatience);
  static_cast<void>(ignored);
}

Result<GatheredStep> RemoteTransport::gather(std::uint64_t step, std::span<const std::byte> message,
                                             Clock::time_point deadline) {
  if (Status refused = caller_.begin_gather(step); !refused) return refused;
  if (message.size() > kMaxMessageBytes) {
    return Status(StatusCode::kInvalidArgument,
                  fmt::format("rank {}, step {}: a message of {} bytes, at most {} travel", rank(), step,
                              message.size(), kMaxMessageBytes));
  }
  GatheredStep gathered = rank() == 0 ? collect(step, message, deadline) : send_record(step, message, deadline);
  const std::lock_guard lock(carrier_->mutex);
  if (!carrier_->broken.is_ok()) {
    return Status(carrier_->broken.code(),
                  fmt::format("rank {}, step {}: {}", rank(), step, carrier_->broken.message()));
  }
  return gathered;
}

GatheredStep RemoteTransport::send_record(std::uint64_t step, std::span<const std::byte> message,
                                          Clock::time_point deadline) {
  GatheredStep gathered;
  gathered.step = step;
  std::vector<std::byte> packed = pack(EnvelopeKind::kRecord, rank(), step, message);
  std::unique_lock lock(carrier_->mutex);
  carrier_->changed.wait_until(lock, deadline, [&] {
    return carrier_->outgoing.size() < kMaxInFlight || carrier_->analyst_gone || !carrier_->broken.is_ok();
  });
  if (carrier_->analyst_gone) {
    gathered.status = analyst_left(rank(), step);
  } else if (carrier_->outgoing.size() >= kMaxInFlight) {
    gathered.status = analyst_behind(rank(), step, carrier_->outgoing.size());
  } else {
    carrier_->outgoing.push_back(std::move(packed));
    carrier_->look = true;
    gathered.status = carrier_->publications.report_lost(rank());
  }
  carrier_->wake.notify_one();
  return gathered;
}

GatheredStep RemoteTransport::collect(std::uint64_t step, std::span<const std::byte> message,
                                      Clock::time_point deadline) {
  carrier_->mailbox.deliver(0, step, {message.begin(), message.end()}, deadline);
  {
    // A rank that is no longer waited for can only come back if the carrier looks once in every step.
    std::unique_lock lock(carrier_->mutex);
    const std::uint64_t wanted = ++carrier_->passes_wanted;
    carrier_->collecting = carrier_->look = true;
    carrier_->wake.notify_one();
    carrier_->changed.wait_until(lock, deadline,
                                 [&] { return carrier_->passes_done >= wanted || !carrier_->broken.is_ok(); });
  }
  GatheredStep gathered = carrier_->mailbox.collect(step, deadline);
  const std::lock_guard lock(carrier_->mutex);
  carrier_->collecting = false;
  return gathered;
}

Status RemoteTransport::publish(std::span<const std::byte> message) {
  if (Status refused = caller_.begin_publish(); !refused) return refused;
  const std::lock_guard lock(carrier_->mutex);
  if (!carrier_->broken.is_ok()) return carrier_->broken;
  const bool full = carrier_->outgoing.size() >= kMaxPublications;
  if (full) carrier_->outgoing.pop_front();
  carrier_->outgoing.push_back(pack(EnvelopeKind::kPublication, 0, published_++, message));
  carrier_->look = true;
  carrier_->wake.notify_one();
  if (!full) return Status::ok();
  return {StatusCode::kUnavailable, fmt::format("rank 0: the oldest of {} publications that wait for {} was dropped",
                                                kMaxPublications, carrier_->name)};
}

Result<std::optional<std::vector<std::byte>>> RemoteTransport::poll() {
  if (Status refused = caller_.begin_poll(); !refused) return refused;
  const std::lock_guard lock(carrier_->mutex);
  std::optional<Publication> oldest = carrier_->publications.pop();
  if (oldest) return std::optional(std::move(oldest->message));
  if (!carrier_->broken.is_ok()) return carrier_->broken;
  if (rank() != 0) {
    carrier_->look = true;  // for the next call: this one must not wait for the carrier
    carrier_->wake.notify_one();
  }
  return std::optional<std::vector<std::byte>>();
}

Status RemoteTransport::close(Clock::time_point deadline) {
  if (!caller_.close()) return Status::ok();
  std::unique_lock lock(carrier_->mutex);
  carrier_->stopping = true;
  // A part of the time is kept for the thread to end in.
  const Clock::time_point now = Clock::now();
  carrier_->stop_at = now + std::max(deadline - now, Clock::duration::zero()) / 4 * 3;
  carrier_->wake.notify_one();
  if (carrier_->changed.wait_until(lock, deadline, [&] { return carrier_->done; })) {
    lock.unlock();
    thread_.join();
    return Status::ok();
  }
  lock.unlock();
  thread_.detach();
  return {StatusCode::kDeadlineExceeded,
          fmt::format("rank {}: close: the carrier is still inside {} and was left behind", rank(), carrier_->name)};
}

}  // namespace lockstep::comm
