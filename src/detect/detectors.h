// The table of detectors: all of them, in the order in which they look at a step.
#pragma once

#include <memory>
#include <vector>

#include "detect/detector.h"

namespace lockstep::detect {

std::vector<std::unique_ptr<Detector>> make_detectors();

}  // namespace lockstep::detect
