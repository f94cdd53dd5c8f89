// How the processes of a job find each other: torchrun's variables, the store behind them, and a gloo group on it.
#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <cstdint>
#include <string>

#include "lockstep/status.h"

namespace lockstep::comm {

struct Rendezvous {
  std::uint32_t rank = 0;
  std::uint32_t size = 1;
  std::string host;
  std::uint16_t port = 0;
  bool hosted_by_agent = false;  // torchrun runs the store itself; else rank 0 does
  std::string prefix;            // of the keys; differs between torchrun's attempts to restart a job
};

// RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT; TORCHELASTIC_USE_AGENT_STORE and TORCHELASTIC_RESTART_COUNT where set.
// kUnavailable when none of the four is set (the process was not started by torchrun); a malformed one is named.
Result<Rendezvous> rendezvous_from_environment();

enum class StoreRole {
  kHost,   // the first of a process: rank 0 serves it, unless torchrun does; must outlive all other connections
  kGuest,  // a further connection, such as Lockstep's own
};

// Waits up to `timeout` for the server.
Result<c10::intrusive_ptr<c10d::Store>> connect_store(const Rendezvous& rendezvous, StoreRole role,
                                                      std::chrono::milliseconds timeout);

// A gloo group of all ranks. `name` sets groups on one store apart. GLOO_SOCKET_IFNAME chooses the interface; on a
// loopback MASTER_ADDR the group stays on this machine.
Result<c10::intrusive_ptr<c10d::ProcessGroup>> make_gloo_group(const Rendezvous& rendezvous,
                                                               const c10::intrusive_ptr<c10d::Store>& store,
                                                               const std::string& name,
                                                               std::chrono::milliseconds timeout);

}  // namespace lockstep::comm
