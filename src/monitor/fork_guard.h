// Tells a forked child that it is one. Threads do not survive a fork, and the locks they held stay held, so in a child
// (a data-loader worker, say) an inherited monitor must not be touched at all.
#pragma once

#include <cstdint>

namespace lockstep::monitor {

// A number that differs between a process and its forked children. One atomic load; no system call.
std::uint32_t fork_generation() noexcept;

}  // namespace lockstep::monitor
