// The careful path of the fast kernels: one element at a time in fp64, straight into the fp64 bins.
//
// It takes what fp32 arithmetic cannot: tiles with a NaN or an infinity, tiles whose squares would leave the range of
// fp32, and all fp64 data. It does not hash: hashing is integer work and never needs care.
#pragma once

#include <cstdint>

#include "digest/cpu/kernels.h"

namespace lockstep::digests::cpu {

// `first` is the offset in `parameter` of the first of `count` elements at `data` (any alignment).
void add_carefully(DType dtype, const unsigned char* data, std::uint32_t parameter, std::uint64_t first,
                   std::uint64_t count, Lane& lane) noexcept;

}  // namespace lockstep::digests::cpu
