#include "comm/mailbox.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace lockstep::comm {

Mailbox::Mailbox(std::uint32_t size) : peers_(size) {}

Mailbox::Delivery Mailbox::deliver(std::uint32_t rank, std::uint64_t step, std::vector<std::byte> message,
                                   Clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  Peer& peer = peers_.at(rank);
  changed_.wait_until(lock, deadline,
                      [&] { return closed_ || step < open_step_ || peer.early.size() < kMaxEarlySteps; });
  if (closed_) return Delivery::kClosed;
  peer.newest = std::max(peer.newest.value_or(step), step);
  peer.misses = 0;
  peer.left = false;
  Delivery delivery = Delivery::kKept;
  if (step < open_step_) {
    delivery = Delivery::kLate;
  } else if (peer.early.size() >= kMaxEarlySteps) {
    delivery = Delivery::kFull;
  } else if (!peer.early.try_emplace(step, std::move(message)).second) {
    delivery = Delivery::kLate;  // a second message for the same step: the first one counts
  }
  if (delivery != Delivery::kKept) ++late_;
  changed_.notify_all();
  return delivery;
}

void Mailbox::mark_heard(std::uint32_t rank) {
  const std::lock_guard lock(mutex_);
  peers_.at(rank).misses = 0;
  peers_.at(rank).left = false;
}

void Mailbox::mark_left(std::uint32_t rank) {
  const std::lock_guard lock(mutex_);
  peers_.at(rank).left = true;
  changed_.notify_all();
}

GatheredStep Mailbox::collect(std::uint64_t step, Clock::time_point deadline) {
  const Clock::time_point begin = Clock::now();
  std::unique_lock lock(mutex_);
  open_step_ = std::max(open_step_, step);
  drop_before(open_step_);
  changed_.notify_all();  // dropping made room
  const bool in_time = changed_.wait_until(lock, deadline, [&] {
    return closed_ || std::all_of(peers_.begin(), peers_.end(), [&](const Peer& peer) { return settled(peer, step); });
  });

  GatheredStep gathered;
  gathered.step = step;
  gathered.messages.resize(peers_.size());
  gathered.arrived.resize(peers_.size(), false);
  for (std::size_t rank = 0; rank < peers_.size(); ++rank) {
    Peer& peer = peers_[rank];
    if (auto node = peer.early.extract(step); !node.empty()) {
      gathered.messages[rank] = std::move(node.mapped());
      gathered.arrived[rank] = true;
    } else if (!in_time && !settled(peer, step)) {
      ++peer.misses;
    }
  }
  gathered.status = explain(gathered, deadline - begin);
  gathered.late = std::exchange(late_, 0);
  open_step_ = std::max(open_step_, step + 1);
  changed_.notify_all();
  return gathered;
}

std::vector<std::uint32_t> Mailbox::present_peers() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::uint32_t> present;
  for (std::uint32_t rank = 1; rank < peers_.size(); ++rank) {
    if (!peers_[rank].left && peers_[rank].misses < kMissesUntilPresumedLost) present.push_back(rank);
  }
  return present;
}

bool Mailbox::all_left() const {
  const std::lock_guard lock(mutex_);
  return std::all_of(peers_.begin() + 1, peers_.end(), [](const Peer& peer) { return peer.left; });
}

void Mailbox::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  changed_.notify_all();
}

bool Mailbox::has_skipped(const Peer& peer, std::uint64_t step) const {
  return peer.newest.has_value() && *peer.newest > step;
}

bool Mailbox::settled(const Peer& peer, std::uint64_t step) const {
  return peer.early.contains(step) || has_skipped(peer, step) || peer.left || peer.misses >= kMissesUntilPresumedLost;
}

void Mailbox::drop_before(std::uint64_t step) {
  for (Peer& peer : peers_) {
    const auto end = peer.early.lower_bound(step);
    late_ += static_cast<std::uint64_t>(std::distance(peer.early.begin(), end));
    peer.early.erase(peer.early.begin(), end);
  }
}

// Runs after misses were counted, so a rank that was waited for has between 1 and the limit of them.
Status Mailbox::explain(const GatheredStep& gathered, std::chrono::nanoseconds waited) const {
  std::vector<std::uint32_t> missing, skipped, left, lost, silent;
  for (std::uint32_t rank = 0; rank < peers_.size(); ++rank) {
    if (gathered.arrived[rank]) continue;
    const Peer& peer = peers_[rank];
    missing.push_back(rank);
    if (has_skipped(peer, gathered.step)) {
      skipped.push_back(rank);
    } else if (peer.left) {
      left.push_back(rank);
    } else if (peer.misses >= kMissesUntilPresumedLost) {
      lost.push_back(rank);
    } else {
      silent.push_back(rank);
    }
  }
  if (missing.empty()) return Status::ok();
  std::string text = fmt::format("step {}: no record from {}", gathered.step, name_ranks(missing));
  const auto waited_ms = std::chrono::round<std::chrono::milliseconds>(waited).count();
  if (!silent.empty() && waited_ms > 0) text += fmt::format(" within {} ms", waited_ms);
  std::vector<std::string> reasons;
  if (!skipped.empty()) reasons.push_back(name_ranks(skipped) + " went on to a later step");
  if (!left.empty()) reasons.push_back(name_ranks(left) + " closed the transport");
  if (!lost.empty()) {
    reasons.push_back(
        fmt::format("{} silent for {} steps, no longer waited for", name_ranks(lost), kMissesUntilPresumedLost));
  }
  if (!reasons.empty()) text += fmt::format(" ({})", fmt::join(reasons, "; "));
  return {silent.empty() ? StatusCode::kUnavailable : StatusCode::kDeadlineExceeded, std::move(text)};
}

std::string name_ranks(const std::vector<std::uint32_t>& ranks) {
  constexpr std::size_t kMaxNamed = 16;
  const std::size_t named = std::min(ranks.size(), kMaxNamed);
  std::string text = fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s",
                                 fmt::join(ranks.begin(), ranks.begin() + static_cast<std::ptrdiff_t>(named), ", "));
  if (named < ranks.size()) text += fmt::format(" and {} more", ranks.size() - named);
  return text;
}

}  // namespace lockstep::comm
