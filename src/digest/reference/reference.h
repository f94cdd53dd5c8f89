// The oracle: the digest written as its definition, one element at a time, in fp64 and without SIMD.
//
// Every fast kernel is tested against it. Slow by design; nothing outside tests and benchmark checks calls it.
#pragma once

#include <span>

#include "lockstep/digest.h"

namespace lockstep::digests::reference {

// `options` must be valid; threads is ignored. Segments must have a valid dtype.
Digest digest(std::span<const Segment> segments, const DigestOptions& options);

}  // namespace lockstep::digests::reference
