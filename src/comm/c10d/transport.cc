// The c10d link: a mailbox of keys in the job's store.
//
//   count        how many envelopes the ranks have announced for rank 0
//   m/<i>        the i-th of them; rank 0 reads it and deletes it
//   published    how many envelopes rank 0 has sent to the others
//   p/<i % 64>   the newest of those, each with its i in front; overwritten in turn, so nobody has to delete them
//
// Only calls that answer at once are made: `get` on keys that exist, `check`, `add`, `set`, `deleteKey`. Store::wait is
// never used: TCPStore's answer to a wait that timed out stays in the stream and is taken for the next answer.
#include "comm/c10d/transport.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "comm/remote_transport.h"

namespace lockstep::comm {
namespace {

constexpr std::size_t kRing = kMaxPublications;
constexpr std::size_t kMaxHoles = 256;
constexpr std::size_t kIndexBytes = 8;

using Value = std::vector<std::uint8_t>;

std::string message_key(std::int64_t index) {
  return fmt::format("m/{}", index);
}
std::string ring_key(std::int64_t index) {
  return fmt::format("p/{}", index % static_cast<std::int64_t>(kRing));
}

// libtorch's what() carries a stack trace; its first line says what happened.
std::string first_line(const std::exception& error) {
  const std::string text = error.what();
  return text.substr(0, text.find('\n'));
}

class StoreLink final : public Link {
 public:
  StoreLink(c10::intrusive_ptr<c10d::Store> store, std::uint32_t rank, std::uint32_t size)
      : store_(std::move(store)), rank_(rank), size_(size) {}

  Result<bool> send(std::vector<std::byte>& packed) override {
    try {
      return rank_ == 0 ? publish(packed) : announce(packed);
    } catch (const std::exception& error) {
      return failed("send", error);
    }
  }

  Result<Progress> progress(const Arrival& arrival) override {
    try {
      return rank_ == 0 ? take_announced(arrival) : take_published(arrival);
    } catch (const std::exception& error) {
      return failed("receive", error);
    }
  }

  void close(bool) noexcept override { store_.reset(); }

 private:
  static Status failed(const char* what, const std::exception& error) {
    return {StatusCode::kUnavailable, fmt::format("{}: {}", what, first_line(error))};
  }

  // A rank may have a bounded number of unread envelopes in the store: the oldest of them is gone once rank 0 read it.
  bool announce(std::vector<std::byte>& packed) {
    if (unread_.size() >= kMaxInFlight) {
      if (store_->check({message_key(unread_.front())})) return false;
      unread_.pop_front();
    }
    const std::int64_t index = store_->add("count", 1) - 1;
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(packed.data());
    store_->set(message_key(index), Value(bytes, bytes + packed.size()));
    unread_.push_back(index);
    return true;
  }

  bool publish(const std::vector<std::byte>& packed) {
    if (size_ == 1) return true;
    std::vector<std::byte> value(kIndexBytes + packed.size());
    base::ByteWriter(value).u64(static_cast<std::uint64_t>(published_));
    std::copy(packed.begin(), packed.end(), value.begin() + kIndexBytes);
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(value.data());
    store_->set(ring_key(published_), Value(bytes, bytes + value.size()));
    ++published_;
    store_->add("published", 1);
    return true;
  }

  // A rank that announced an envelope may not have written it yet, or may have died before it could: a hole, looked at
  // again in every later pass. `count` is read first and holes are looked at in rising order, so that the envelopes of
  // one rank arrive in order: it announces the next one only after it has written the one before.
  Result<Progress> take_announced(const Arrival& arrival) {
    Progress progress;
    if (size_ == 1) return progress;
    const std::int64_t count = store_->add("count", 0);
    for (; seen_ < count; ++seen_) holes_.push_back(seen_);
    const bool all_there = all_written();
    for (auto hole = holes_.begin(); hole != holes_.end();) {
      const std::string key = message_key(*hole);
      if (!all_there && !store_->check({key})) {
        ++hole;
        continue;
      }
      const Value value = store_->get(key);
      store_->deleteKey(key);
      hole = holes_.erase(hole);
      if (Status bad = hand_on(std::as_bytes(std::span(value)), arrival); !bad) return bad;
      progress.moved = true;
    }
    while (holes_.size() > kMaxHoles) holes_.pop_front();
    return progress;
  }

  bool all_written() {
    if (holes_.empty()) return true;
    std::vector<std::string> keys;
    for (const std::int64_t hole : holes_) keys.push_back(message_key(hole));
    return store_->check(keys);
  }

  Result<Progress> take_published(const Arrival& arrival) {
    Progress progress;
    const std::int64_t count = store_->add("published", 0);
    seen_ = std::max(seen_, count - static_cast<std::int64_t>(kRing));
    for (; seen_ < count; ++seen_) {
      const Value value = store_->get(ring_key(seen_));
      const auto bytes = std::as_bytes(std::span(value));
      base::ByteReader reader(bytes);
      const std::uint64_t index = reader.u64();
      if (reader.failed()) return Status(StatusCode::kCorrupt, fmt::format("{} is cut short", ring_key(seen_)));
      if (index != static_cast<std::uint64_t>(seen_)) continue;  // overwritten meanwhile; its number will be missed
      if (Status bad = hand_on(bytes.subspan(kIndexBytes), arrival); !bad) return bad;
      progress.moved = true;
    }
    return progress;
  }

  Status hand_on(std::span<const std::byte> packed, const Arrival& arrival) {
    Result<Envelope> envelope = unpack_envelope(packed, size_);
    if (!envelope) return envelope.error();
    return arrival(std::move(*envelope));
  }

  c10::intrusive_ptr<c10d::Store> store_;
  std::uint32_t rank_;
  std::uint32_t size_;
  std::int64_t seen_ = 0;            // rank 0: of `count`; others: of `published`
  std::deque<std::int64_t> holes_;   // rank 0: announced, not yet read
  std::deque<std::int64_t> unread_;  // others: own envelopes that rank 0 may not have read
  std::int64_t published_ = 0;       // rank 0
};

// The group's all-gather as the callback wants it. Exceptions are the group's way to report a timeout or a dead peer;
// the callback transport turns them into a Status.
AllGather all_gather_of(c10::intrusive_ptr<c10d::ProcessGroup> group) {
  return [group = std::move(group)](const void* send, std::size_t bytes, void* receive) {
    const auto options = at::TensorOptions().dtype(at::kByte).device(at::kCPU);
    const auto length = static_cast<std::int64_t>(bytes);
    at::Tensor input = at::from_blob(const_cast<void*>(send), {length}, options);
    std::vector<at::Tensor> inputs{input};
    std::vector<std::vector<at::Tensor>> outputs(1);
    for (int rank = 0; rank < group->getSize(); ++rank) {
      outputs[0].push_back(at::from_blob(static_cast<std::byte*>(receive) + rank * length, {length}, options));
    }
    group->allgather(outputs, inputs)->wait();
    return 0;
  };
}

}  // namespace

Result<std::unique_ptr<Transport>> make_c10d_transport(c10::intrusive_ptr<c10d::Store> store, std::uint32_t rank,
                                                       std::uint32_t size, const std::string& name) {
  if (!store) return Status(StatusCode::kInvalidArgument, "c10d transport: the store is null");
  if (size == 0 || rank >= size) {
    return Status(StatusCode::kInvalidArgument, fmt::format("c10d transport: rank {} in a group of {}", rank, size));
  }
  auto own = c10::make_intrusive<c10d::PrefixStore>(name, std::move(store));
  return RemoteTransport::start("the c10d store", std::make_unique<StoreLink>(std::move(own), rank, size), rank, size);
}

Result<std::unique_ptr<Transport>> make_c10d_transport(c10::intrusive_ptr<c10d::ProcessGroup> side_group,
                                                       std::size_t slot_bytes) {
  if (!side_group) return Status(StatusCode::kInvalidArgument, "c10d transport: the process group is null");
  const std::string backend = side_group->getBackendName();
  if (backend != "gloo" && backend != "mpi") {
    return Status(StatusCode::kUnsupported,
                  fmt::format("c10d transport: a process group on {}: its collectives run on the device, where one of "
                              "ours beside the host's can deadlock both: give the job's store instead, or a side group "
                              "on gloo",
                              backend));
  }
  CallbackTransportOptions options;
  options.rank = static_cast<std::uint32_t>(side_group->getRank());
  options.size = static_cast<std::uint32_t>(side_group->getSize());
  options.slot_bytes = slot_bytes;
  return make_callback_transport(options, all_gather_of(std::move(side_group)));
}

}  // namespace lockstep::comm
