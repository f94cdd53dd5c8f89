// Puts the floating-point unit of this thread into its default mode for a scope.
//
// Training code may flush denormals to zero or change the rounding mode; a digest must not depend on that.
#pragma once

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

namespace lockstep::digests::cpu {

class DefaultFloatMode {
 public:
#if defined(__SSE2__)
  DefaultFloatMode() noexcept : saved_(_mm_getcsr()) {
    _mm_setcsr(kDefault);
  }
  ~DefaultFloatMode() {
    _mm_setcsr(saved_);
  }
#else
  DefaultFloatMode() noexcept = default;
#endif
  DefaultFloatMode(const DefaultFloatMode&) = delete;
  DefaultFloatMode& operator=(const DefaultFloatMode&) = delete;

 private:
#if defined(__SSE2__)
  static constexpr unsigned kDefault = 0x1f80;  // all exceptions masked, round to nearest, denormals kept
  unsigned saved_;
#endif
};

}  // namespace lockstep::digests::cpu
