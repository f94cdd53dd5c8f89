#include "train/engine.h"

#include <fmt/format.h>

#include <utility>

namespace lockstep::train {
namespace {

class VirtualEngine final : public Engine {
 public:
  explicit VirtualEngine(std::uint32_t workers) : transports_(make_in_process_transports(workers)) {}

  EngineKind kind() const noexcept override { return EngineKind::kVirtual; }
  std::uint32_t world() const noexcept override { return static_cast<std::uint32_t>(transports_.size()); }
  std::uint32_t first_rank() const noexcept override { return 0; }
  std::uint32_t local_ranks() const noexcept override { return world(); }

  Status all_reduce_sum(std::span<float>) override { return Status::ok(); }  // the caller's own workers are all

  Result<std::vector<std::vector<std::byte>>> all_gather(std::span<const std::byte> message) override {
    return std::vector<std::vector<std::byte>>{{message.begin(), message.end()}};
  }

  Result<std::unique_ptr<Transport>> make_transport(std::uint32_t rank) override {
    if (rank >= world() || transports_[rank] == nullptr) {
      return Status(StatusCode::kFailedPrecondition,
                    fmt::format("virtual engine of {}: no transport (left) for worker {}", world(), rank));
    }
    return std::move(transports_[rank]);
  }

  Status close() override { return Status::ok(); }

 private:
  std::vector<std::unique_ptr<Transport>> transports_;
};

}  // namespace

const char* to_string(EngineKind kind) noexcept {
  switch (kind) {
    case EngineKind::kVirtual:
      return "virtual";
    case EngineKind::kC10d:
      return "c10d";
    case EngineKind::kMpi:
      return "mpi";
  }
  return "unknown";
}

Result<EngineKind> parse_engine_kind(std::string_view name) {
  for (EngineKind kind : {EngineKind::kVirtual, EngineKind::kC10d, EngineKind::kMpi}) {
    if (name == to_string(kind)) return kind;
  }
  return Status(StatusCode::kInvalidArgument, fmt::format("engine \"{}\": expected virtual, c10d or mpi", name));
}

Status agree(Engine& engine, const Status& own) {
  auto all = engine.all_gather(std::as_bytes(std::span(own.message())));
  if (!own) return own;
  if (!all) return all.error();
  for (std::size_t process = 0; process < all->size(); ++process) {
    const std::vector<std::byte>& text = (*all)[process];
    if (text.empty()) continue;
    return {StatusCode::kUnavailable,
            fmt::format("rank {} failed: {}", process,
                        std::string_view(reinterpret_cast<const char*>(text.data()), text.size()))};
  }
  return Status::ok();
}

Result<std::unique_ptr<Engine>> make_virtual_engine(std::uint32_t workers) {
  if (workers < 1 || workers > kMaxVirtualWorkers) {
    return Status(StatusCode::kInvalidArgument,
                  fmt::format("{} virtual workers: expected 1 to {}", workers, kMaxVirtualWorkers));
  }
  return std::unique_ptr<Engine>(std::make_unique<VirtualEngine>(workers));
}

#ifndef LOCKSTEP_HAVE_MPI
Result<std::unique_ptr<Engine>> make_mpi_engine() {
  return Status(StatusCode::kUnsupported, "this build has no MPI: use the c10d engine, or build with LOCKSTEP_MPI=ON");
}
#endif

}  // namespace lockstep::train
