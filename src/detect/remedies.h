// What to change, per cause: the words that a finding ends with.
#pragma once

#include <string_view>

namespace lockstep::detect {

// Never empty, also for a cause that is not in the table.
const char* remedy_of(std::string_view cause) noexcept;

}  // namespace lockstep::detect
