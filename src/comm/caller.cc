#include "comm/caller.h"

#include <fmt/format.h>

namespace lockstep::comm {

Status Caller::begin_gather(std::uint64_t step) {
  if (closed_) return refuse_closed("gather");
  if (last_step_ && step <= *last_step_) {
    return {StatusCode::kInvalidArgument,
            fmt::format("rank {}: gather of step {} after step {}: steps must rise; a run that goes back to an earlier "
                        "step needs a new transport",
                        rank_, step, *last_step_)};
  }
  last_step_ = step;
  return Status::ok();
}

Status Caller::begin_publish() const {
  if (closed_) return refuse_closed("publish");
  if (rank_ != 0) {
    return {StatusCode::kFailedPrecondition, fmt::format("rank {}: only rank 0 publishes", rank_)};
  }
  return Status::ok();
}

Status Caller::begin_poll() const {
  return closed_ ? refuse_closed("poll") : Status::ok();
}

bool Caller::close() noexcept {
  const bool first = !closed_;
  closed_ = true;
  return first;
}

Status Caller::refuse_closed(const char* call) const {
  return {StatusCode::kFailedPrecondition, fmt::format("rank {}: {} on a closed transport", rank_, call)};
}

Status analyst_left(std::uint32_t rank, std::uint64_t step) {
  return {StatusCode::kUnavailable,
          fmt::format("rank {}, step {}: rank 0 has closed its transport, the record goes nowhere", rank, step)};
}

Status analyst_behind(std::uint32_t rank, std::uint64_t step, std::size_t waiting) {
  return {StatusCode::kDeadlineExceeded,
          fmt::format("rank {}, step {}: rank 0 has {} records of this rank still to take, this one was dropped", rank,
                      step, waiting)};
}

}  // namespace lockstep::comm
