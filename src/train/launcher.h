// Starts one process of this program per worker on this machine, as torchrun does: same arguments, RANK, WORLD_SIZE,
// MASTER_ADDR and MASTER_PORT in the environment. For a job of several machines use torchrun or mpirun itself.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/status.h"

namespace lockstep::train {

struct LaunchOptions {
  std::uint32_t workers = 1;
  std::vector<std::string> arguments;  // argv of every worker, the program's name included
  std::uint16_t store_port = 0;        // of a JobStore that outlives the call
  std::uint32_t threads = 0;           // per worker (OMP_NUM_THREADS); 0: the cores divided among the workers
};

// Waits for all of them. SIGINT and SIGTERM go on to the workers, which end cleanly after their step; a second one ends
// them at once. When a worker dies the others are ended too, and the error names its rank and exit status. Workers die
// with this process, however it ends. Blocks both signals in the calling thread while it runs.
Status launch_workers(const LaunchOptions& options);

// "exit status 3", "signal 9 (Killed)"
std::string describe_wait_status(int status);

}  // namespace lockstep::train
