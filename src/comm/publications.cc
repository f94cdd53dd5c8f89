#include "comm/publications.h"

#include <fmt/format.h>

namespace lockstep::comm {

bool Publications::push(Publication publication) {
  const bool full = queue_.size() >= kMaxPublications;
  if (full) queue_.pop_front();
  queue_.push_back(std::move(publication));
  return !full;
}

std::optional<Publication> Publications::pop() {
  if (queue_.empty()) return std::nullopt;
  Publication oldest = std::move(queue_.front());
  queue_.pop_front();
  if (oldest.number > expected_) lost_ += oldest.number - expected_;
  expected_ = oldest.number + 1;
  return oldest;
}

Status Publications::report_lost(std::uint32_t rank) {
  const std::uint64_t lost = take_lost();
  if (lost == 0) return Status::ok();
  return {StatusCode::kUnavailable,
          fmt::format("rank {} lost {} publications of rank 0: more than {} waited", rank, lost, kMaxPublications)};
}

}  // namespace lockstep::comm
