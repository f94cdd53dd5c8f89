#include "capi/error.h"

namespace lockstep::capi {
namespace {

thread_local std::string last_error;
thread_local std::string kept;

}  // namespace

lockstep_status remember(const Status& status) noexcept {
  try {
    last_error = status.message();
  } catch (...) {
    last_error.clear();
  }
  return static_cast<lockstep_status>(status.code());
}

const char* keep(std::string text) noexcept {
  kept = std::move(text);
  return kept.c_str();
}

}  // namespace lockstep::capi

const char* lockstep_last_error(void) {
  return lockstep::capi::last_error.c_str();
}
const char* lockstep_version(void) {
  return LOCKSTEP_VERSION_STRING;
}
