// Transport over the caller's own all-gather: fixed-size slots, one collective call per gathered step.
//
// Slot (little-endian): magic u32, version u16, flags u16, slot bytes u64, step u64, message length u64, publication
// area length u64; then the message; then, in rank 0's slot, publications as (number u64, length u64, bytes) each.
// A rank always takes part in the collective, even when its message cannot travel: its absence would hang the others.
// Ranks may arrive with different steps; the mailbox sorts them, so a rank that is one step ahead loses nothing.
#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "base/bytes.h"
#include "comm/caller.h"
#include "comm/mailbox.h"
#include "comm/publications.h"
#include "lockstep/transport.h"

namespace lockstep::comm {
namespace {

constexpr std::uint32_t kMagic = 0x474b4c53;  // "SLKG"
constexpr std::uint16_t kVersion = 1;
constexpr std::uint16_t kOversize = 1;  // flag: the message did not fit and was left out; its length stands
constexpr std::size_t kHeaderBytes = 40;
constexpr std::size_t kPublicationHeaderBytes = 16;

struct Slot {
  std::uint64_t step = 0;
  std::uint64_t message_bytes = 0;
  bool oversize = false;
  std::span<const std::byte> message;
  std::span<const std::byte> publications;
};

Result<Slot> read_slot(std::span<const std::byte> bytes, std::uint32_t rank) {
  base::ByteReader reader(bytes);
  const std::uint32_t magic = reader.u32();
  const std::uint16_t version = reader.u16();
  const std::uint16_t flags = reader.u16();
  const std::uint64_t slot_bytes = reader.u64();
  Slot slot;
  slot.step = reader.u64();
  slot.message_bytes = reader.u64();
  const std::uint64_t publication_bytes = reader.u64();
  slot.oversize = (flags & kOversize) != 0;
  if (magic != kMagic || version != kVersion || slot_bytes != bytes.size()) {
    return Status(
        StatusCode::kCorrupt,
        fmt::format("the all-gather returned no slot of {} bytes for rank {}: it must copy every rank's bytes "
                    "in rank order, and all ranks need the same slot_bytes and lockstep version",
                    bytes.size(), rank));
  }
  const std::size_t room = bytes.size() - kHeaderBytes;
  const std::uint64_t sent = slot.oversize ? 0 : slot.message_bytes;
  if (sent > room || publication_bytes > room - sent) {
    return Status(StatusCode::kCorrupt, fmt::format("the slot of rank {} claims {} + {} bytes and has {}", rank, sent,
                                                    publication_bytes, room));
  }
  slot.message = bytes.subspan(kHeaderBytes, sent);
  slot.publications = bytes.subspan(kHeaderBytes + sent, publication_bytes);
  return slot;
}

class CallbackTransport final : public Transport {
 public:
  CallbackTransport(const CallbackTransportOptions& options, AllGather all_gather)
      : caller_(options.rank),
        size_(options.size),
        all_gather_(std::move(all_gather)),
        mailbox_(options.size),
        send_(options.slot_bytes),
        receive_(options.slot_bytes * options.size) {}

  std::uint32_t rank() const noexcept override { return caller_.rank(); }
  std::uint32_t size() const noexcept override { return size_; }

  // The deadline is the all-gather's own affair: a collective cannot be abandoned from outside.
  Result<GatheredStep> gather(std::uint64_t step, std::span<const std::byte> message, Clock::time_point) override {
    if (Status refused = caller_.begin_gather(step); !refused) return refused;
    write_slot(step, message);
    if (Status failed = call(step); !failed) return failed;
    std::vector<Slot> slots;
    for (std::uint32_t peer = 0; peer < size_; ++peer) {
      Result<Slot> slot =
          read_slot(std::span<const std::byte>(receive_).subspan(peer * send_.size(), send_.size()), peer);
      if (!slot) {
        return Status(slot.error().code(), fmt::format("rank {}, step {}: {}", rank(), step, slot.error().message()));
      }
      slots.push_back(*slot);
    }
    if (rank() == 0) return collect(step, slots);
    return take_publications(step, message, slots[0]);
  }

  Status publish(std::span<const std::byte> message) override {
    if (Status refused = caller_.begin_publish(); !refused) return refused;
    const std::size_t room = send_.size() - kHeaderBytes - kPublicationHeaderBytes;
    if (message.size() > room) {
      return {StatusCode::kInvalidArgument,
              fmt::format("rank 0: a publication of {} bytes, a slot of {} bytes carries at most {}: make slot_bytes "
                          "larger",
                          message.size(), send_.size(), room)};
    }
    if (size_ == 1) return Status::ok();
    const bool kept_all = publications_.push({published_++, {message.begin(), message.end()}});
    if (kept_all) return Status::ok();
    return {
        StatusCode::kUnavailable,
        fmt::format("rank 0: the oldest of {} waiting publications was dropped: they leave with gather(), as far as "
                    "its slot has room beside the message",
                    kMaxPublications)};
  }

  Result<std::optional<std::vector<std::byte>>> poll() override {
    if (Status refused = caller_.begin_poll(); !refused) return refused;
    if (rank() == 0) return std::optional<std::vector<std::byte>>();
    std::optional<Publication> oldest = publications_.pop();
    if (!oldest) return std::optional<std::vector<std::byte>>();
    return std::optional(std::move(oldest->message));
  }

  Status close(Clock::time_point) override {
    if (caller_.close()) {
      mailbox_.close();
      all_gather_ = nullptr;  // may own the host's communicator
    }
    return Status::ok();
  }

 private:
  void write_slot(std::uint64_t step, std::span<const std::byte> message) {
    const std::size_t room = send_.size() - kHeaderBytes;
    const bool oversize = message.size() > room;
    const std::size_t sent = oversize ? 0 : message.size();
    std::copy_n(message.begin(), sent, send_.begin() + kHeaderBytes);
    const std::size_t publication_bytes =
        rank() == 0 ? write_publications(std::span(send_).subspan(kHeaderBytes + sent)) : 0;
    base::ByteWriter header(send_);
    header.u32(kMagic);
    header.u16(kVersion);
    header.u16(oversize ? kOversize : 0);
    header.u64(send_.size());
    header.u64(step);
    header.u64(message.size());
    header.u64(publication_bytes);
  }

  // As many as fit; returns the bytes that they take.
  std::size_t write_publications(std::span<std::byte> area) {
    std::size_t used = 0;
    while (!publications_.empty()) {
      const std::size_t bytes = kPublicationHeaderBytes + publications_.front().message.size();
      if (bytes > area.size() - used) break;
      const Publication publication = *publications_.pop();
      base::ByteWriter writer(area.subspan(used, bytes));
      writer.u64(publication.number);
      writer.u64(publication.message.size());
      std::copy(publication.message.begin(), publication.message.end(),
                area.begin() + static_cast<std::ptrdiff_t>(used + kPublicationHeaderBytes));
      used += bytes;
    }
    return used;
  }

  Status call(std::uint64_t step) {
    try {
      const int code = all_gather_(send_.data(), send_.size(), receive_.data());
      if (code == 0) return Status::ok();
      return {StatusCode::kUnavailable,
              fmt::format("rank {}, step {}: the host's all-gather returned {}", rank(), step, code)};
    } catch (const std::exception& error) {
      return {StatusCode::kInternal,
              fmt::format("rank {}, step {}: the host's all-gather threw: {}", rank(), step, error.what())};
    } catch (...) {
      return {StatusCode::kInternal, fmt::format("rank {}, step {}: the host's all-gather threw", rank(), step)};
    }
  }

  GatheredStep collect(std::uint64_t step, const std::vector<Slot>& slots) {
    std::string remarks;
    for (std::uint32_t peer = 0; peer < size_; ++peer) {
      const Slot& slot = slots[peer];
      if (slot.oversize) {
        remarks += fmt::format("; rank {}'s message of {} bytes does not fit its slot of {} bytes with a header of {}",
                               peer, slot.message_bytes, send_.size(), kHeaderBytes);
        mailbox_.mark_heard(peer);
        continue;
      }
      if (slot.step != step) remarks += fmt::format("; rank {} came with step {}", peer, slot.step);
      mailbox_.deliver(peer, slot.step, {slot.message.begin(), slot.message.end()}, Clock::now());
    }
    // The collective is over: what is not here now will not come for this step.
    GatheredStep gathered = mailbox_.collect(step, Clock::now());
    if (!gathered.status.is_ok() && !remarks.empty()) {
      gathered.status = Status(gathered.status.code(), gathered.status.message() + remarks);
    }
    return gathered;
  }

  Result<GatheredStep> take_publications(std::uint64_t step, std::span<const std::byte> message, const Slot& slot) {
    base::ByteReader reader(slot.publications);
    while (reader.remaining() > 0) {
      Publication publication;
      publication.number = reader.u64();
      const std::uint64_t bytes = reader.u64();
      if (reader.failed() || bytes > reader.remaining()) {
        return Status(StatusCode::kCorrupt,
                      fmt::format("rank {}, step {}: the publications of rank 0 are cut short", rank(), step));
      }
      const auto content = slot.publications.subspan(reader.position(), bytes);
      publication.message.assign(content.begin(), content.end());
      publications_.push(std::move(publication));
      reader.skip(bytes);
    }
    GatheredStep gathered;
    gathered.step = step;
    gathered.status = publications_.report_lost(rank());
    if (message.size() > send_.size() - kHeaderBytes) gathered.status = too_large(step, message.size());
    return gathered;
  }

  Status too_large(std::uint64_t step, std::size_t bytes) const {
    return {StatusCode::kInvalidArgument,
            fmt::format("rank {}, step {}: a message of {} bytes does not fit a slot of {} bytes with a header of {}: "
                        "make slot_bytes larger",
                        rank(), step, bytes, send_.size(), kHeaderBytes)};
  }

  Caller caller_;
  std::uint32_t size_;
  AllGather all_gather_;
  Mailbox mailbox_;            // used on rank 0
  Publications publications_;  // rank 0: not yet sent; others: not yet taken
  std::uint64_t published_ = 0;
  std::vector<std::byte> send_;
  std::vector<std::byte> receive_;
};

}  // namespace
}  // namespace lockstep::comm

namespace lockstep {

Result<std::unique_ptr<Transport>> make_callback_transport(const CallbackTransportOptions& options,
                                                           AllGather all_gather) {
  if (options.size == 0 || options.rank >= options.size) {
    return Status(StatusCode::kInvalidArgument,
                  fmt::format("callback transport: rank {} in a group of {}", options.rank, options.size));
  }
  const std::size_t least = comm::kHeaderBytes + comm::kPublicationHeaderBytes;
  if (options.slot_bytes < least) {
    return Status(StatusCode::kInvalidArgument,
                  fmt::format("callback transport: slot_bytes is {}, at least {} are needed: the largest message, room "
                              "for publications, and {} for headers",
                              options.slot_bytes, least, least));
  }
  if (!all_gather) return Status(StatusCode::kInvalidArgument, "callback transport: the all-gather function is empty");
  return std::unique_ptr<Transport>(std::make_unique<comm::CallbackTransport>(options, std::move(all_gather)));
}

}  // namespace lockstep
