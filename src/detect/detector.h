// The interface of a detector. A new one is its own file pair, one line in CMakeLists.txt, one row in detectors.cc and
// a row in docs/findings.md.
#pragma once

#include "audit/data_audit.h"
#include "detect/symptom.h"
#include "detect/thresholds.h"
#include "lockstep/stats.h"

namespace lockstep::detect {

// Everything that is known of a step.
struct Observation {
  const Step& step;
  const StepStats& stats;
  const audit::AuditReport& audit;
  const Thresholds& thresholds;
};

// Sees every step in order and appends what it finds, again in each step that shows it. May keep a bounded history.
class Detector {
 public:
  virtual ~Detector() = default;
  virtual void on_step(const Observation& now, Symptoms& out) = 0;
};

}  // namespace lockstep::detect
