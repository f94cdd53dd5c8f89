#include "base/log.h"

#include <cstdio>

namespace lockstep::base {

void log_line(const LogSink& sink, const std::string& line) noexcept {
  try {
    if (sink) {
      sink("lockstep: " + line);
    } else {
      std::fprintf(stderr, "lockstep: %s\n", line.c_str());
    }
  } catch (...) {
    std::fputs("lockstep: the log function of the host threw an exception\n", stderr);
  }
}

}  // namespace lockstep::base
