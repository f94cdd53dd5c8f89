// Transports for hosts on c10d (libtorch): over the job's store, or over a process group of their own.
//
// Prefer the store. It serves jobs on gloo, NCCL or anything else, since every c10d job has one; it opens one
// connection per rank instead of a mesh; a dead peer is merely silent; and no operation of it is ever left half done at
// a deadline. (A gloo operation that times out closes every pair of its context, so that one late rank would break the
// whole group.)
#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <memory>
#include <string>

#include "lockstep/transport.h"

namespace lockstep::comm {

// `store`: a connection of Lockstep's own (rendezvous.h, connect_store), since a c10d store serves one caller at a time
// and the host must not wait for us. A TCPStore is meant; a FileStore works and grows with every record. `name` sets
// transports that share one store apart, and must be new in it.
Result<std::unique_ptr<Transport>> make_c10d_transport(c10::intrusive_ptr<c10d::Store> store, std::uint32_t rank,
                                                       std::uint32_t size, const std::string& name = "lockstep");

// Over the all-gather of a process group that belongs to Lockstep alone: a callback transport with its limits. A rank
// that is missing for the group's timeout breaks it for all. `slot_bytes` as in CallbackTransportOptions. Groups on a
// device (NCCL) are refused: a collective of ours beside the host's on one device can deadlock both.
Result<std::unique_ptr<Transport>> make_c10d_transport(c10::intrusive_ptr<c10d::ProcessGroup> side_group,
                                                       std::size_t slot_bytes);

}  // namespace lockstep::comm
