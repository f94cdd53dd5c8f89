// Linear layers in fp32, or in bf16 over fp32 weights.
//
// libtorch's own CPU autocast would do, but it switches a thread-wide mode, casts tensors that we reuse once per use,
// and on processors without AVX-512 falls into scalar bf16 loops. Explicit casts do the same arithmetic: inputs and
// weights rounded to bf16, products accumulated in fp32, the result rounded to bf16. Where the processor has no fast
// bf16 product, the rounded values are multiplied in fp32, which differs only in the order of accumulation.
#pragma once

#include <ATen/ATen.h>

namespace lockstep::train {

class LinearMath {
 public:
  explicit LinearMath(bool bf16, bool fast_bf16 = has_fast_bf16()) : bf16_(bf16), fast_bf16_(fast_bf16) {}

  // What apply() takes: in bf16 the rounded tensor. Call once per tensor that several layers read.
  at::Tensor input(const at::Tensor& x) const { return bf16_ ? x.to(at::kBFloat16) : x; }

  // x weight^T + bias; an undefined bias adds nothing.
  at::Tensor apply(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) const;

  // Back to the weights' precision.
  at::Tensor wide(const at::Tensor& x) const { return bf16_ ? x.to(at::kFloat) : x; }

  static bool has_fast_bf16() noexcept;  // of this processor

 private:
  bool bf16_;
  bool fast_bf16_;
};

}  // namespace lockstep::train
