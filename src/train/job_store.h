// The c10d store of a job whose processes we start ourselves: served by the launcher, as torchrun's agent does, so that
// no port has to be guessed and the store outlives any worker. The header needs no libtorch.
#pragma once

#include <cstdint>
#include <memory>

#include "lockstep/status.h"

namespace lockstep::train {

class JobStore {
 public:
  // On a free port of the loopback interface.
  static Result<JobStore> serve();
  JobStore(JobStore&&) noexcept;
  ~JobStore();

  std::uint16_t port() const;

 private:
  struct Impl;
  explicit JobStore(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::train
