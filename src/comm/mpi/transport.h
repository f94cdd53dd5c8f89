// Transport over MPI: point-to-point messages on a communicator of its own.
#pragma once

#include <mpi.h>

#include <memory>

#include "lockstep/transport.h"

namespace lockstep::comm {

// Collective over `communicator`, which is duplicated and otherwise left alone; rank 0 of it analyses. MPI must be
// initialised with MPI_THREAD_MULTIPLE, since the transport calls it from a thread of its own while the host does too;
// another level is refused on every rank. Close the transport before MPI_Finalize.
//
// Open MPI ends the whole job when a process dies, unless mpirun got --enable-recovery; then the others go on, and so
// does this transport.
Result<std::unique_ptr<Transport>> make_mpi_transport(MPI_Comm communicator);

}  // namespace lockstep::comm
