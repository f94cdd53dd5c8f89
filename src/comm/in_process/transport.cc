// Transports of N worker threads in one process: they share the mailbox, and nothing is copied twice.
#include <fmt/format.h>

#include <mutex>

#include "comm/caller.h"
#include "comm/mailbox.h"
#include "comm/publications.h"
#include "lockstep/transport.h"

namespace lockstep::comm {
namespace {

// What the transports of one group share. Each holds a reference, so they may be destroyed in any order.
struct Group {
  explicit Group(std::uint32_t size) : mailbox(size), publications(size) {}
  Mailbox mailbox;
  std::mutex mutex;                        // of what follows
  std::vector<Publications> publications;  // one per rank; rank 0's stays empty
  std::uint64_t published = 0;
};

class InProcessTransport final : public Transport {
 public:
  InProcessTransport(std::shared_ptr<Group> group, std::uint32_t rank, std::uint32_t size)
      : group_(std::move(group)), caller_(rank), size_(size) {}
  ~InProcessTransport() override { leave(); }

  std::uint32_t rank() const noexcept override { return caller_.rank(); }
  std::uint32_t size() const noexcept override { return size_; }

  Result<GatheredStep> gather(std::uint64_t step, std::span<const std::byte> message,
                              Clock::time_point deadline) override {
    if (Status refused = caller_.begin_gather(step); !refused) return refused;
    const auto delivery = group_->mailbox.deliver(rank(), step, {message.begin(), message.end()}, deadline);
    if (rank() == 0) return group_->mailbox.collect(step, deadline);
    GatheredStep gathered;
    gathered.step = step;
    gathered.status = explain(step, delivery);
    return gathered;
  }

  Status publish(std::span<const std::byte> message) override {
    if (Status refused = caller_.begin_publish(); !refused) return refused;
    const std::lock_guard lock(group_->mutex);
    for (std::uint32_t peer = 1; peer < size_; ++peer) {
      group_->publications[peer].push({group_->published, {message.begin(), message.end()}});
    }
    ++group_->published;
    return Status::ok();
  }

  Result<std::optional<std::vector<std::byte>>> poll() override {
    if (Status refused = caller_.begin_poll(); !refused) return refused;
    const std::lock_guard lock(group_->mutex);
    std::optional<Publication> oldest = group_->publications[rank()].pop();
    if (!oldest) return std::optional<std::vector<std::byte>>();
    return std::optional(std::move(oldest->message));
  }

  Status close(Clock::time_point) override {
    leave();
    return Status::ok();
  }

 private:
  void leave() {
    if (!caller_.close()) return;
    if (rank() == 0) {
      group_->mailbox.close();
    } else {
      group_->mailbox.mark_left(rank());
    }
  }

  Status explain(std::uint64_t step, Mailbox::Delivery delivery) {
    switch (delivery) {
      case Mailbox::Delivery::kClosed:
        return analyst_left(rank(), step);
      case Mailbox::Delivery::kFull:
        return analyst_behind(rank(), step, kMaxEarlySteps);
      case Mailbox::Delivery::kLate:  // rank 0 sees and counts it
      case Mailbox::Delivery::kKept:
        break;
    }
    const std::lock_guard lock(group_->mutex);
    return group_->publications[rank()].report_lost(rank());
  }

  std::shared_ptr<Group> group_;
  Caller caller_;
  std::uint32_t size_;
};

}  // namespace
}  // namespace lockstep::comm

namespace lockstep {

std::vector<std::unique_ptr<Transport>> make_in_process_transports(std::uint32_t size) {
  auto group = std::make_shared<comm::Group>(size);
  std::vector<std::unique_ptr<Transport>> transports;
  for (std::uint32_t rank = 0; rank < size; ++rank) {
    transports.push_back(std::make_unique<comm::InProcessTransport>(group, rank, size));
  }
  return transports;
}

}  // namespace lockstep
