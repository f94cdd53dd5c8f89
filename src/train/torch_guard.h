// Turns what libtorch throws into a Status, in the files of this folder that call it.
#pragma once

#include <c10/util/Exception.h>
#include <fmt/core.h>

#include <exception>
#include <new>

#include "lockstep/status.h"

namespace lockstep::train {

// The result of `body`, or a Status that names the operation and the reason.
template <class Body>
auto guard_torch(const char* operation, Body&& body) -> decltype(body()) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return Status(StatusCode::kUnavailable, fmt::format("cannot {}: out of memory", operation));
  } catch (const c10::Error& error) {
    return Status(StatusCode::kInternal, fmt::format("cannot {}: {}", operation, error.what_without_backtrace()));
  } catch (const std::exception& error) {
    return Status(StatusCode::kInternal, fmt::format("cannot {}: {}", operation, error.what()));
  }
}

}  // namespace lockstep::train
