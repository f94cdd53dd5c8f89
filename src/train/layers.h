// The layers of a Llama block, written plainly with differentiable tensor operations.
//
// They work for every dtype and device and are the oracle of their fast twins in fused_layers.h. Activations are kept
// as [batch * positions, width]: a linear layer then needs no reshaping.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>

namespace lockstep::train {

// y = x / sqrt(mean(x^2) + eps) * weight over the last dimension, in at least fp32 inside.
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps);

// silu(gate) * up
at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up);

// Angles of rotate-half RoPE: cos and sin, each [positions, head_dim / 2].
struct RopeTable {
  at::Tensor cos;
  at::Tensor sin;
  std::int64_t positions() const { return cos.defined() ? cos.size(0) : 0; }
};
RopeTable make_rope_table(std::int64_t positions, std::int64_t head_dim, double theta, at::ScalarType dtype);

struct AttentionShape {
  std::int64_t batch = 0;
  std::int64_t positions = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;

  std::int64_t rows() const { return batch * positions; }
  std::int64_t group() const { return heads / kv_heads; }  // query heads that share one key/value head
};

// Probabilities are multiplied by `mask` (zeros and 1/(1-p)) when it is defined: [batch * kv_heads, group * positions,
// positions]. Drawn outside, so that both twins drop the same ones.
struct AttentionDropout {
  at::Tensor mask;
};

// Causal grouped-query self-attention with RoPE: q [rows, heads * head_dim], k and v [rows, kv_heads * head_dim] to
// [rows, heads * head_dim]. Query head h reads key/value head h / group. Right padding needs no mask: a real token
// never sees a later position.
at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const RopeTable& rope,
                     const AttentionShape& shape, const AttentionDropout& dropout);

}  // namespace lockstep::train
