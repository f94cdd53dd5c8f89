// An engine: how the workers of one job add up their gradients.
//
// It says how many workers there are and which of them live in this process, adds flat buffers over all processes,
// exchanges small things at the beginning and the end, and gives each local worker a transport for its monitor. It
// knows nothing of models, data or steps, and its header nothing of libtorch or MPI.
//
//   virtual  all workers in this process, one after the other on one model
//   c10d     one process per worker, torchrun's variables, gloo
//   mpi      one process per worker, under mpirun
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "lockstep/status.h"
#include "lockstep/transport.h"

namespace lockstep::train {

enum class EngineKind { kVirtual, kC10d, kMpi };

const char* to_string(EngineKind kind) noexcept;  // "virtual"
Result<EngineKind> parse_engine_kind(std::string_view name);

// All calls but make_transport are collective: every process makes them in the same order, from one thread.
class Engine {
 public:
  virtual ~Engine() = default;

  virtual EngineKind kind() const noexcept = 0;
  virtual std::uint32_t world() const noexcept = 0;
  virtual std::uint32_t first_rank() const noexcept = 0;   // of the workers in this process
  virtual std::uint32_t local_ranks() const noexcept = 0;  // how many follow each other from there
  bool is_root() const noexcept { return first_rank() == 0; }

  // Replaces `values` by its sum over all processes; the caller has added up its own workers. Every process gets the
  // same bits. The order of the sum is the engine's.
  virtual Status all_reduce_sum(std::span<float> values) = 0;

  // One message per process, of any size, given to all of them in rank order. For small things.
  virtual Result<std::vector<std::vector<std::byte>>> all_gather(std::span<const std::byte> message) = 0;

  // For the monitor of local worker `rank`, once each. Collective between the processes.
  virtual Result<std::unique_ptr<Transport>> make_transport(std::uint32_t rank) = 0;

  // Waits for the other processes and lets go of them; nothing may be called afterwards.
  virtual Status close() = 0;
};

// Ok when every process says ok. All of them learn of one's failure, so that none waits for it in a later collective.
Status agree(Engine& engine, const Status& own);

// Up to kMaxVirtualWorkers.
inline constexpr std::uint32_t kMaxVirtualWorkers = 1024;
Result<std::unique_ptr<Engine>> make_virtual_engine(std::uint32_t workers);

// From RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT.
Result<std::unique_ptr<Engine>> make_c10d_engine();

// Initialises MPI with MPI_THREAD_MULTIPLE where the host has not. kUnsupported in a build without MPI.
Result<std::unique_ptr<Engine>> make_mpi_engine();

}  // namespace lockstep::train
