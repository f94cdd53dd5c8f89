// One process per worker over c10d. Gloo carries the sums: the trainer's weights live in CPU memory, where NCCL cannot
// go. The store of the job also carries the monitor's records, on a connection of their own.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <chrono>
#include <cstring>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "comm/c10d/rendezvous.h"
#include "comm/c10d/transport.h"
#include "train/engine.h"
#include "train/job_store.h"

namespace lockstep::train {
namespace {

constexpr std::chrono::minutes kConnectPatience{5};
constexpr std::chrono::minutes kCollectivePatience{30};  // torch's own default: a slow checkpoint must not end a job

class C10dEngine final : public Engine {
 public:
  C10dEngine(comm::Rendezvous rendezvous, c10::intrusive_ptr<c10d::Store> store,
             c10::intrusive_ptr<c10d::ProcessGroup> group)
      : rendezvous_(std::move(rendezvous)), store_(std::move(store)), group_(std::move(group)) {}

  EngineKind kind() const noexcept override { return EngineKind::kC10d; }
  std::uint32_t world() const noexcept override { return rendezvous_.size; }
  std::uint32_t first_rank() const noexcept override { return rendezvous_.rank; }
  std::uint32_t local_ranks() const noexcept override { return 1; }

  Status all_reduce_sum(std::span<float> values) override {
    return guard("all-reduce of the gradient", [&] {
      std::vector<at::Tensor> tensors = {
          at::from_blob(values.data(), {static_cast<std::int64_t>(values.size())}, at::kFloat)};
      group_->allreduce(tensors)->wait();
    });
  }

  Result<std::vector<std::vector<std::byte>>> all_gather(std::span<const std::byte> message) override {
    std::vector<std::vector<std::byte>> out;
    Status status = guard("all-gather", [&] {
      const std::vector<at::Tensor> lengths =
          gather(at::full({1}, static_cast<std::int64_t>(message.size()), at::kLong));
      std::int64_t longest = 1;  // gloo refuses empty tensors
      for (const at::Tensor& length : lengths) longest = std::max(longest, length.item<std::int64_t>());
      at::Tensor own = at::zeros({longest}, at::kByte);
      if (!message.empty()) std::memcpy(own.data_ptr(), message.data(), message.size());
      const std::vector<at::Tensor> all = gather(own);
      for (std::size_t i = 0; i < all.size(); ++i) {
        const auto* bytes = static_cast<const std::byte*>(all[i].data_ptr());
        out.emplace_back(bytes, bytes + lengths[i].item<std::int64_t>());
      }
    });
    if (!status) return status;
    return out;
  }

  Result<std::unique_ptr<Transport>> make_transport(std::uint32_t) override {
    auto guest = comm::connect_store(rendezvous_, comm::StoreRole::kGuest, kConnectPatience);
    if (!guest) return guest.error();
    return comm::make_c10d_transport(*guest, rendezvous_.rank, rendezvous_.size,
                                     fmt::format("lockstep_{}", transports_++));
  }

  Status close() override {
    // Rank 0 may serve the store: it stays until the others are through with it.
    auto met = all_gather({});
    group_.reset();
    store_.reset();
    return met ? Status::ok() : met.error();
  }

 private:
  std::vector<at::Tensor> gather(at::Tensor own) {
    std::vector<std::vector<at::Tensor>> out(1);
    for (std::uint32_t i = 0; i < rendezvous_.size; ++i) out[0].push_back(at::empty_like(own));
    std::vector<at::Tensor> in = {std::move(own)};
    group_->allgather(out, in)->wait();
    return out[0];
  }

  template <class Body>
  Status guard(const char* operation, Body body) const {
    if (!group_) return {StatusCode::kFailedPrecondition, fmt::format("{} on a closed c10d engine", operation)};
    try {
      body();
      return Status::ok();
    } catch (const std::exception& error) {
      const std::string text = error.what();  // its first line; the rest is a stack trace of libtorch
      return {StatusCode::kUnavailable,
              fmt::format("rank {}: {}: {}", rendezvous_.rank, operation, text.substr(0, text.find('\n')))};
    }
  }

  comm::Rendezvous rendezvous_;
  c10::intrusive_ptr<c10d::Store> store_;
  c10::intrusive_ptr<c10d::ProcessGroup> group_;
  int transports_ = 0;
};

}  // namespace

Result<std::unique_ptr<Engine>> make_c10d_engine() {
  auto rendezvous = comm::rendezvous_from_environment();
  if (!rendezvous) return rendezvous.error();
  auto store = comm::connect_store(*rendezvous, comm::StoreRole::kHost, kConnectPatience);
  if (!store) return store.error();
  auto group = comm::make_gloo_group(*rendezvous, *store, "train", kCollectivePatience);
  if (!group) return group.error();
  return std::unique_ptr<Engine>(std::make_unique<C10dEngine>(*rendezvous, *store, *group));
}

struct JobStore::Impl {
  c10::intrusive_ptr<c10d::TCPStore> store;
};

JobStore::JobStore(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
JobStore::JobStore(JobStore&&) noexcept = default;
JobStore::~JobStore() = default;

Result<JobStore> JobStore::serve() {
  c10d::TCPStoreOptions options;
  options.port = 0;  // any free one
  options.isServer = true;
  options.waitWorkers = false;
  try {
    return JobStore(std::make_unique<Impl>(Impl{c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options)}));
  } catch (const std::exception& error) {
    const std::string text = error.what();
    return Status(StatusCode::kUnavailable,
                  fmt::format("cannot serve the workers' store on this machine: {}", text.substr(0, text.find('\n'))));
  }
}

std::uint16_t JobStore::port() const {
  return impl_->store->getPort();
}

}  // namespace lockstep::train
