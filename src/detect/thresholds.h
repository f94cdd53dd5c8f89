// Setting a threshold by name; the fields themselves are public (lockstep/diagnosis.h).
#pragma once

#include <string_view>

#include "lockstep/diagnosis.h"
#include "lockstep/status.h"

namespace lockstep::detect {

// Sets a field by name. The Status names the field and its range.
Status set_threshold(Thresholds& thresholds, std::string_view name, double value);

}  // namespace lockstep::detect
