// Templates of error.h.
#pragma once

#include <algorithm>
#include <cstring>
#include <type_traits>

namespace lockstep::capi {

inline Status check_size(const void* pointer, std::size_t size, const char* name) {
  if (pointer == nullptr) return {StatusCode::kInvalidArgument, std::string(name) + " is NULL"};
  if (size < sizeof(std::size_t)) {
    return {StatusCode::kInvalidArgument,
            std::string(name) + ".size is not set: call its _init function, or set it to sizeof"};
  }
  return Status::ok();
}

template <class Struct>
Status read_sized(const Struct* theirs, Struct& ours, const char* name) {
  static_assert(std::is_trivially_copyable_v<Struct>);
  if (Status status = check_size(theirs, theirs == nullptr ? 0 : theirs->size, name); !status) return status;
  std::memcpy(static_cast<void*>(&ours), theirs, std::min(theirs->size, sizeof(Struct)));
  ours.size = sizeof(Struct);
  return Status::ok();
}

template <class Struct>
Status write_sized(const Struct& ours, Struct* theirs, const char* name) {
  static_assert(std::is_trivially_copyable_v<Struct>);
  if (Status status = check_size(theirs, theirs == nullptr ? 0 : theirs->size, name); !status) return status;
  const std::size_t size = theirs->size;
  std::memcpy(static_cast<void*>(theirs), &ours, std::min(size, sizeof(Struct)));
  theirs->size = size;
  return Status::ok();
}

}  // namespace lockstep::capi
