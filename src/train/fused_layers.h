// Fast twins of layers.h for fp32 on the CPU: one graph node each, with a hand-written backward pass that reuses
// memory. Other dtypes and devices fall back to the plain layers. bf16 activations (q, k, v, gate, up) are widened to
// fp32 first and the caller rounds the result, so that softmax and products inside stay in fp32.
#pragma once

#include "train/layers.h"

namespace lockstep::train::fused {

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps);
at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up);
at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const RopeTable& rope,
                     const AttentionShape& shape, const AttentionDropout& dropout);

}  // namespace lockstep::train::fused
