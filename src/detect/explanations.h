// Which cause explains which symptom: the table by which symptoms of one fault become one finding.
#pragma once

#include <cstddef>
#include <string_view>

#include "detect/symptom.h"

namespace lockstep::detect {

// True where a fault `root` on `root_ranks` makes the symptom appear on `ranks` by itself.
bool explains(std::string_view root, const Ranks& root_ranks, std::string_view symptom, const Ranks& ranks);

// Place in the order in which symptoms of one step are taken: roots before what they explain.
std::size_t order_of(std::string_view cause);

}  // namespace lockstep::detect
