// The conformance suite: what every transport must do, written once and run over each backend.
//
// A scenario is the program of one rank; all ranks of a group run the same one, as threads or as processes. Nothing
// here asserts on time: what must come is given a minute, what must not be waited for is given an hour.
#pragma once

#include <functional>
#include <span>

#include "lockstep/transport.h"

namespace lockstep::comm {

// One rank of the group under test.
struct Member {
  Transport& transport;
  std::function<void()> meet;  // all ranks, by other means than the transport
};

struct Scenario {
  const char* name;
  bool independent;           // ranks do not all gather the same steps: impossible over a collective
  std::size_t largest_bytes;  // of a message: what fixed-size slots must hold, beside some publications
  void (*body)(Member& member);
};

std::span<const Scenario> conformance_suite();

// Runs the scenario as this rank and closes the transport.
void run_scenario(const Scenario& scenario, Member member);

}  // namespace lockstep::comm
