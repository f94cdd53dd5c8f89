// One line of `lockstep bench`: what was measured and how to read it. Each folder that has something worth timing
// returns a list of these; the command line prints them and writes the JSON.
#pragma once

#include <optional>
#include <string>

namespace lockstep::base {

struct BenchRow {
  std::string name;  // stable, dotted: "stats.step.n64"
  double value = 0;
  std::string unit;  // "ms", "GB/s", "ratio"
  bool higher_is_better = false;
  std::optional<double> target;  // what the project promises; none for figures that are only reported
};

}  // namespace lockstep::base
