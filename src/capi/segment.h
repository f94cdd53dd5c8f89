// The C segment as the library's own.
#pragma once

#include "lockstep/digest.h"
#include "lockstep/lockstep.h"

namespace lockstep::capi {

inline Segment to_segment(const lockstep_segment& segment) noexcept {
  // A number that is no dtype becomes an enumerator that is none either, which every user of Segment refuses.
  const auto dtype = static_cast<DType>(segment.dtype <= 0xff ? segment.dtype : 0xff);
  return {segment.parameter, segment.offset, segment.data, segment.count, dtype};
}

}  // namespace lockstep::capi
