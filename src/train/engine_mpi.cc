// One process per worker under mpirun. Open MPI's all-reduce gives every process the same bits: each element is summed
// in one place, or pairwise with operands swapped, which addition does not notice.
#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "comm/mpi/transport.h"
#include "train/engine.h"

namespace lockstep::train {
namespace {

constexpr std::size_t kMaxCount = std::size_t{1} << 30;  // MPI counts in int

Status check(int code, const char* call, int rank) {
  if (code == MPI_SUCCESS) return Status::ok();
  char text[MPI_MAX_ERROR_STRING] = "unknown error";
  int length = 0;
  MPI_Error_string(code, text, &length);
  return {StatusCode::kUnavailable, fmt::format("rank {}: {}: {}", rank, call, text)};
}

class MpiEngine final : public Engine {
 public:
  MpiEngine(MPI_Comm communicator, int rank, int size, bool owns_mpi)
      : communicator_(communicator), rank_(rank), size_(size), owns_mpi_(owns_mpi) {}

  EngineKind kind() const noexcept override { return EngineKind::kMpi; }
  std::uint32_t world() const noexcept override { return static_cast<std::uint32_t>(size_); }
  std::uint32_t first_rank() const noexcept override { return static_cast<std::uint32_t>(rank_); }
  std::uint32_t local_ranks() const noexcept override { return 1; }

  Status all_reduce_sum(std::span<float> values) override {
    for (std::size_t begin = 0; begin < values.size(); begin += kMaxCount) {
      const auto part = values.subspan(begin, std::min(kMaxCount, values.size() - begin));
      const int code =
          MPI_Allreduce(MPI_IN_PLACE, part.data(), static_cast<int>(part.size()), MPI_FLOAT, MPI_SUM, communicator_);
      if (Status failed = check(code, "MPI_Allreduce of the gradient", rank_); !failed) return failed;
    }
    return Status::ok();
  }

  Result<std::vector<std::vector<std::byte>>> all_gather(std::span<const std::byte> message) override {
    const int own = static_cast<int>(message.size());
    std::vector<int> lengths(static_cast<std::size_t>(size_)), places(lengths.size());
    if (Status failed =
            check(MPI_Allgather(&own, 1, MPI_INT, lengths.data(), 1, MPI_INT, communicator_), "MPI_Allgather", rank_);
        !failed) {
      return failed;
    }
    for (std::size_t i = 1; i < places.size(); ++i) places[i] = places[i - 1] + lengths[i - 1];
    std::vector<std::byte> all(static_cast<std::size_t>(places.back() + lengths.back()));
    if (Status failed = check(MPI_Allgatherv(message.data(), own, MPI_BYTE, all.data(), lengths.data(), places.data(),
                                             MPI_BYTE, communicator_),
                              "MPI_Allgatherv", rank_);
        !failed) {
      return failed;
    }
    std::vector<std::vector<std::byte>> out;
    for (std::size_t i = 0; i < places.size(); ++i) {
      out.emplace_back(all.begin() + places[i], all.begin() + places[i] + lengths[i]);
    }
    return out;
  }

  Result<std::unique_ptr<Transport>> make_transport(std::uint32_t) override {
    return comm::make_mpi_transport(communicator_);
  }

  Status close() override {
    if (closed_) return Status::ok();
    closed_ = true;
    if (owns_mpi_) return check(MPI_Finalize(), "MPI_Finalize", rank_);
    MPI_Comm_free(&communicator_);
    return Status::ok();
  }

 private:
  MPI_Comm communicator_;
  int rank_;
  int size_;
  bool owns_mpi_;
  bool closed_ = false;
};

}  // namespace

Result<std::unique_ptr<Engine>> make_mpi_engine() {
  int initialized = 0;
  MPI_Initialized(&initialized);
  int level = MPI_THREAD_SINGLE;
  if (initialized == 0) {
    if (Status failed = check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level), "MPI_Init_thread", -1);
        !failed) {
      return failed;
    }
  }
  MPI_Comm own = MPI_COMM_NULL;
  if (Status failed = check(MPI_Comm_dup(MPI_COMM_WORLD, &own), "MPI_Comm_dup", -1); !failed) return failed;
  MPI_Comm_set_errhandler(own, MPI_ERRORS_RETURN);
  int rank = 0, size = 1;
  MPI_Comm_rank(own, &rank);
  MPI_Comm_size(own, &size);
  return std::unique_ptr<Engine>(std::make_unique<MpiEngine>(own, rank, size, initialized == 0));
}

}  // namespace lockstep::train
