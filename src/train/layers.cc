#include "train/layers.h"

#include <cmath>
#include <limits>

namespace lockstep::train {
namespace {

// [rows, heads * d] to [batch, heads, positions, d]
at::Tensor split_heads(const at::Tensor& x, const AttentionShape& shape, std::int64_t heads) {
  return x.view({shape.batch, shape.positions, heads, shape.head_dim}).transpose(1, 2);
}

// Rotate-half: the first and second half of a head are the two coordinates of each pair.
at::Tensor rotate(const at::Tensor& x, const RopeTable& rope) {
  const std::int64_t positions = x.size(2);
  const at::Tensor cos = rope.cos.narrow(0, 0, positions);
  const at::Tensor sin = rope.sin.narrow(0, 0, positions);
  const auto halves = x.chunk(2, -1);
  return at::cat({halves[0] * cos - halves[1] * sin, halves[1] * cos + halves[0] * sin}, -1);
}

}  // namespace

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps) {
  const at::Tensor wide = x.scalar_type() == at::kDouble ? x : x.to(at::kFloat);
  const at::Tensor scaled = wide * (wide.square().mean(-1, true) + eps).rsqrt();
  return weight * scaled.to(x.scalar_type());
}

at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up) {
  return at::silu(gate) * up;
}

RopeTable make_rope_table(std::int64_t positions, std::int64_t head_dim, double theta, at::ScalarType dtype) {
  // In fp32 as transformers does: at far positions the rounding of a frequency is visible in the angle.
  const auto options = at::TensorOptions(at::kFloat);
  const at::Tensor exponents = at::arange(0, head_dim, 2, options) / static_cast<double>(head_dim);
  const at::Tensor frequencies = at::reciprocal(at::pow(theta, exponents));
  const at::Tensor angles = at::outer(at::arange(positions, options), frequencies);
  return {angles.cos().to(dtype), angles.sin().to(dtype)};
}

at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const RopeTable& rope,
                     const AttentionShape& shape, const AttentionDropout& dropout) {
  const at::Tensor queries = rotate(split_heads(q, shape, shape.heads), rope);
  const at::Tensor keys = rotate(split_heads(k, shape, shape.kv_heads), rope).repeat_interleave(shape.group(), 1);
  const at::Tensor values = split_heads(v, shape, shape.kv_heads).repeat_interleave(shape.group(), 1);

  const double scale = 1.0 / std::sqrt(static_cast<double>(shape.head_dim));
  const at::Tensor future = at::ones({shape.positions, shape.positions}, q.options().dtype(at::kBool)).triu(1);
  const at::Tensor scores =
      (at::matmul(queries, keys.transpose(2, 3)) * scale).masked_fill(future, -std::numeric_limits<double>::infinity());
  at::Tensor probabilities = at::softmax(scores, -1);
  if (dropout.mask.defined()) probabilities = probabilities * dropout.mask.view(probabilities.sizes());
  const at::Tensor mixed = at::matmul(probabilities, values);
  return mixed.transpose(1, 2).reshape({shape.rows(), shape.heads * shape.head_dim});
}

}  // namespace lockstep::train
