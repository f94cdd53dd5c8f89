// Status and Result: how the library reports failure without exceptions.
//
// A message names the thing, the place (rank, step, file, field) and the way out. Result carries std::expected's member
// names, so that it can become std::expected when the compilers we support have it.
#pragma once

#include <cassert>
#include <string>
#include <utility>
#include <variant>

namespace lockstep {

enum class StatusCode {
  kOk = 0,
  kInvalidArgument = 1,     // the caller passed something that can never work
  kFailedPrecondition = 2,  // a call out of order, or on a closed object
  kDeadlineExceeded = 3,    // a peer or a device did not answer in time
  kUnavailable = 4,         // a peer, file or feature is not there
  kCorrupt = 5,             // bytes that are truncated, foreign or inconsistent
  kIo = 6,                  // the operating system refused a read or write
  kUnsupported = 7,         // valid, but not built in or not implemented
  kInternal = 8,            // a bug of ours, or an exception of a foreign library
};

// Stable lower-case name of a code, for logs and JSON.
inline const char* to_string(StatusCode code) noexcept {
  switch (code) {
    case StatusCode::kOk:
      return "ok";
    case StatusCode::kInvalidArgument:
      return "invalid_argument";
    case StatusCode::kFailedPrecondition:
      return "failed_precondition";
    case StatusCode::kDeadlineExceeded:
      return "deadline_exceeded";
    case StatusCode::kUnavailable:
      return "unavailable";
    case StatusCode::kCorrupt:
      return "corrupt";
    case StatusCode::kIo:
      return "io";
    case StatusCode::kUnsupported:
      return "unsupported";
    case StatusCode::kInternal:
      return "internal";
  }
  return "unknown";
}

// The outcome of an operation that returns nothing else. Cheap when ok (an empty string inside).
class [[nodiscard]] Status {
 public:
  Status() noexcept = default;
  Status(StatusCode code, std::string message) : code_(code), message_(std::move(message)) {}

  static Status ok() noexcept { return {}; }

  bool is_ok() const noexcept { return code_ == StatusCode::kOk; }
  explicit operator bool() const noexcept { return is_ok(); }
  StatusCode code() const noexcept { return code_; }
  const std::string& message() const noexcept { return message_; }

 private:
  StatusCode code_ = StatusCode::kOk;
  std::string message_;
};

// A value or the Status that says why there is none. A Result is never built from an ok Status.
template <class T>
class [[nodiscard]] Result {
 public:
  using value_type = T;
  using error_type = Status;

  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}      // NOLINT(google-explicit-constructor)
  Result(Status error) : state_(std::in_place_index<1>, std::move(error)) {  // NOLINT(google-explicit-constructor)
    assert(!std::get<1>(state_).is_ok());
  }

  bool has_value() const noexcept { return state_.index() == 0; }
  explicit operator bool() const noexcept { return has_value(); }

  T& value() & { return std::get<0>(state_); }
  const T& value() const& { return std::get<0>(state_); }
  T&& value() && { return std::get<0>(std::move(state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  const Status& error() const& { return std::get<1>(state_); }
  Status&& error() && { return std::get<1>(std::move(state_)); }

  template <class U>
  T value_or(U&& fallback) const& {
    return has_value() ? value() : static_cast<T>(std::forward<U>(fallback));
  }

 private:
  std::variant<T, Status> state_;
};

}  // namespace lockstep
