// Test only: the classes of faults, each at a random rank, onset and size, with the verdict that it must get.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "detect/simulation.h"
#include "detect/symptom.h"

namespace lockstep::detect {

// What is drawn at random for one case.
struct Draw {
  std::uint32_t workers = 8;
  std::uint32_t rank = 0;   // the faulty one
  std::uint32_t other = 1;  // another one
  std::uint64_t onset = 0;
  double size = 0.5;  // 0 to 1
};

struct Case {
  SimulationOptions options;
  Hook hook;
  Ranks ranks;                 // that must be named
  std::uint64_t known = 0;     // first step that shows the fault
  std::uint64_t patience = 1;  // steps after `known` in which it must be found
  std::uint64_t steps = 0;     // to run in all
};

struct Scenario {
  const char* name;
  const char* cause;
  bool certain;
  std::uint32_t least_workers;
  Case (*make)(const Draw& draw, const SimulationOptions& base);
};

const std::vector<Scenario>& fault_scenarios();

// Kinds of healthy training: nothing may be found in them.
struct HealthyKind {
  const char* name;
  void (*set)(SimulationOptions& options);
};
const std::vector<HealthyKind>& healthy_kinds();

}  // namespace lockstep::detect
