// The library's one way to speak: a line to standard error, or to the function that the host gave.
#pragma once

#include <functional>
#include <string>

namespace lockstep::base {

using LogSink = std::function<void(const std::string&)>;

// Writes "lockstep: <line>" through `sink`, or to standard error when it is empty. Never throws: a failing sink is
// dropped.
void log_line(const LogSink& sink, const std::string& line) noexcept;

}  // namespace lockstep::base
