// lockstep_last_error and the frame that keeps exceptions inside: every function of the C ABI runs in guarded().
#pragma once

#include <exception>
#include <string>
#include <utility>

#include "lockstep/lockstep.h"
#include "lockstep/status.h"

namespace lockstep::capi {

// Remembers the message for lockstep_last_error of this thread and gives the status as the C ABI has it.
lockstep_status remember(const Status& status) noexcept;

// This thread's buffer for strings that the C ABI returns.
const char* keep(std::string text) noexcept;

// Runs `body` (which returns Status); whatever it throws becomes LOCKSTEP_INTERNAL.
template <class Body>
lockstep_status guarded(Body body) noexcept {
  try {
    return remember(body());
  } catch (const std::exception& error) {
    return remember(Status(StatusCode::kInternal, error.what()));
  } catch (...) {
    return remember(Status(StatusCode::kInternal, "an exception of unknown type"));
  }
}

// A struct of the caller that may be older (shorter) or newer (longer) than ours: copies what both know.
template <class Struct>
Status read_sized(const Struct* theirs, Struct& ours, const char* name);
template <class Struct>
Status write_sized(const Struct& ours, Struct* theirs, const char* name);

}  // namespace lockstep::capi

#include "capi/error-inl.h"
