#include "train/linear.h"

namespace lockstep::train {
namespace {

c10::optional<at::Tensor> optional(const at::Tensor& bias) {
  return bias.defined() ? c10::optional<at::Tensor>(bias) : c10::nullopt;
}

at::Tensor rounded(const at::Tensor& x) {
  return x.defined() ? x.to(at::kBFloat16) : x;
}

at::Tensor widened(const at::Tensor& x) {
  return x.defined() ? x.to(at::kFloat) : x;
}

}  // namespace

bool LinearMath::has_fast_bf16() noexcept {
#if defined(__x86_64__)
  // The condition under which libtorch hands bf16 products to oneDNN.
  static const bool fast =
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  return fast;
#else
  return false;
#endif
}

at::Tensor LinearMath::apply(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) const {
  if (!bf16_) return at::linear(x, weight, optional(bias));
  const at::Tensor w = rounded(weight), b = rounded(bias);
  if (x.is_cuda() || fast_bf16_) return at::linear(x, w, optional(b));
  return at::linear(widened(x), widened(w), optional(widened(b))).to(at::kBFloat16);
}

}  // namespace lockstep::train
