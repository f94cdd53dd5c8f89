// Healthy training of many kinds: not one finding. LOCKSTEP_HEALTHY_STEPS sets the length (the slow suite: 20,000 in
// all kinds and sizes together, and more).
#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>

#include "detect/diagnosis.h"
#include "detect/scenarios.h"

namespace lockstep::detect {
namespace {

std::uint64_t number_from(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

TEST(Healthy, NothingIsFound) {
  const std::uint64_t steps_each = number_from("LOCKSTEP_HEALTHY_STEPS", 150);
  const std::uint64_t seed = number_from("LOCKSTEP_TEST_SEED", 1);
  std::uint64_t total = 0;
  for (const std::uint32_t workers : {2U, 4U, 8U, 16U}) {
    for (const HealthyKind& kind : healthy_kinds()) {
      SCOPED_TRACE(testing::Message() << kind.name << ", " << workers << " workers, seed " << seed);
      SimulationOptions options;
      options.workers = workers;
      options.seed = seed * 7919 + workers;
      kind.set(options);
      Simulation simulation(options);
      StatsEngine stats;
      Diagnosis diagnosis;
      for (std::uint64_t i = 0; i < steps_each; ++i) {
        const Step step = simulation.next();
        diagnosis.add(step, stats.update(step));
      }
      total += steps_each;
      EXPECT_TRUE(diagnosis.findings().empty()) << findings_json(kind.name, workers, steps_each, diagnosis.findings());
    }
  }
  std::cout << "healthy: " << total << " steps of " << healthy_kinds().size() << " kinds, seed " << seed << "\n";
}

TEST(Healthy, GoingBackToAnEarlierStepIsNoFault) {
  SimulationOptions options;
  options.dataset = 4000;
  Simulation simulation(options);
  StatsEngine stats;
  Diagnosis diagnosis;
  for (int i = 0; i < 60; ++i) {
    const Step step = simulation.next();
    diagnosis.add(step, stats.update(step));
    if (i == 40) simulation.go_back(25);
  }
  EXPECT_TRUE(diagnosis.findings().empty()) << findings_json("resume", 8, 60, diagnosis.findings());
}

}  // namespace
}  // namespace lockstep::detect
