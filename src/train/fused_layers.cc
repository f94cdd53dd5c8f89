#include "train/fused_layers.h"

#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cmath>

#include "train/kernels.h"

namespace lockstep::train::fused {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

constexpr std::int64_t kElementsPerTask = 1 << 14;  // below this a second thread costs more than it saves

bool is_plain_cpu(const at::Tensor& x) {
  return x.is_cpu() && (x.scalar_type() == at::kFloat || x.scalar_type() == at::kBFloat16);
}

at::Tensor fp32(const at::Tensor& x) {
  return x.to(at::kFloat).contiguous();
}

std::int64_t rows_per_task(std::int64_t width) {
  return std::max<std::int64_t>(1, kElementsPerTask / width);
}

struct RmsNorm : Function<RmsNorm> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight, double eps) {
    const std::int64_t rows = x.size(0), width = x.size(1);
    at::Tensor y = at::empty_like(x);
    at::Tensor inverse_rms = at::empty({rows}, x.options());
    at::parallel_for(0, rows, rows_per_task(width), [&](std::int64_t begin, std::int64_t end) {
      kernels::rms_norm_forward(x.data_ptr<float>() + begin * width, weight.data_ptr<float>(), static_cast<float>(eps),
                                static_cast<std::size_t>(end - begin), static_cast<std::size_t>(width),
                                y.data_ptr<float>() + begin * width, inverse_rms.data_ptr<float>() + begin);
    });
    context->save_for_backward({x, weight, inverse_rms});
    return y;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1], &inverse_rms = saved[2];
    const at::Tensor dy = gradients[0].contiguous();
    const std::int64_t rows = x.size(0), width = x.size(1);
    at::Tensor dx = at::empty_like(x);
    // A fixed number of partial sums, whatever the number of threads: the gradient's bits must not depend on it.
    constexpr std::int64_t kParts = 8;
    at::Tensor parts = at::zeros({kParts, width}, x.options());
    const std::int64_t per_part = (rows + kParts - 1) / kParts;
    at::parallel_for(
        0, kParts, rows * width < 2 * kElementsPerTask ? kParts : 1, [&](std::int64_t first, std::int64_t last) {
          for (std::int64_t part = first; part < last; ++part) {
            const std::int64_t begin = part * per_part, end = std::min(rows, begin + per_part);
            if (begin >= end) continue;
            kernels::rms_norm_backward(dy.data_ptr<float>() + begin * width, x.data_ptr<float>() + begin * width,
                                       weight.data_ptr<float>(), inverse_rms.data_ptr<float>() + begin,
                                       static_cast<std::size_t>(end - begin), static_cast<std::size_t>(width),
                                       dx.data_ptr<float>() + begin * width, parts.data_ptr<float>() + part * width);
          }
        });
    return {dx, parts.sum(0), at::Tensor()};
  }
};

struct SwiGlu : Function<SwiGlu> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& gate, const at::Tensor& up) {
    at::Tensor y = at::empty_like(gate);
    at::parallel_for(0, gate.numel(), kElementsPerTask, [&](std::int64_t begin, std::int64_t end) {
      kernels::swiglu_forward(gate.data_ptr<float>() + begin, up.data_ptr<float>() + begin,
                              static_cast<std::size_t>(end - begin), y.data_ptr<float>() + begin);
    });
    context->save_for_backward({gate, up});
    return y;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &gate = saved[0], &up = saved[1];
    const at::Tensor dy = gradients[0].contiguous();
    at::Tensor dgate = at::empty_like(gate), dup = at::empty_like(up);
    at::parallel_for(0, gate.numel(), kElementsPerTask, [&](std::int64_t begin, std::int64_t end) {
      kernels::swiglu_backward(dy.data_ptr<float>() + begin, gate.data_ptr<float>() + begin,
                               up.data_ptr<float>() + begin, static_cast<std::size_t>(end - begin),
                               dgate.data_ptr<float>() + begin, dup.data_ptr<float>() + begin);
    });
    return {dgate, dup};
  }
};

enum class Turn { kNone, kForward, kBack };

// Where head h of row (b, t) lies in [batch * kv_heads, group * positions, head_dim]: the query heads that share a
// key/value head stand below one another, so that one product per key/value head serves all of them.
struct HeadLayout {
  std::int64_t positions, heads, group, dim;
  std::int64_t offset(std::int64_t b, std::int64_t t, std::int64_t h) const {
    return ((b * (heads / group) + h / group) * group * positions + (h % group) * positions + t) * dim;
  }
};

void turn_head(const float* from, float* to, const RopeTable& rope, std::int64_t position, std::int64_t dim,
               Turn turn) {
  if (turn == Turn::kNone) {
    std::copy_n(from, dim, to);
    return;
  }
  const std::int64_t row = position * (dim / 2);
  kernels::rotate_head(from, rope.cos.data_ptr<float>() + row, rope.sin.data_ptr<float>() + row,
                       static_cast<std::size_t>(dim), turn == Turn::kForward ? 1.0f : -1.0f, to);
}

// Rows [rows, heads * dim] to the head layout (kSplit) or back, turning each head on the way.
template <bool kSplit>
at::Tensor rearrange(const at::Tensor& x, const RopeTable& rope, const AttentionShape& shape, std::int64_t heads,
                     Turn turn) {
  const std::int64_t group = heads / shape.kv_heads, width = heads * shape.head_dim;
  const HeadLayout layout{shape.positions, heads, group, shape.head_dim};
  at::Tensor out = kSplit
                       ? at::empty({shape.batch * shape.kv_heads, group * shape.positions, shape.head_dim}, x.options())
                       : at::empty({shape.rows(), width}, x.options());
  const float* from = x.data_ptr<float>();
  float* to = out.data_ptr<float>();
  at::parallel_for(0, shape.rows(), rows_per_task(width), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int64_t b = row / shape.positions, t = row % shape.positions;
      for (std::int64_t h = 0; h < heads; ++h) {
        const std::int64_t flat = row * width + h * shape.head_dim, split = layout.offset(b, t, h);
        turn_head(from + (kSplit ? flat : split), to + (kSplit ? split : flat), rope, t, shape.head_dim, turn);
      }
    }
  });
  return out;
}

float score_scale(const AttentionShape& shape) {
  return static_cast<float>(1.0 / std::sqrt(static_cast<double>(shape.head_dim)));
}

// Rows of the score tensor, taken in order over its batches; row % positions is the position in each of them.
template <class Body>
void for_score_rows(const at::Tensor& scores, Body&& body) {
  const std::int64_t rows = scores.size(0) * scores.size(1);
  at::parallel_for(0, rows, rows_per_task(scores.size(2)), body);
}

struct Attention : Function<Attention> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const RopeTable& rope, const AttentionShape& shape, const AttentionDropout& dropout) {
    const at::Tensor queries = rearrange<true>(q, rope, shape, shape.heads, Turn::kForward);
    const at::Tensor keys = rearrange<true>(k, rope, shape, shape.kv_heads, Turn::kForward);
    const at::Tensor values = rearrange<true>(v, rope, shape, shape.kv_heads, Turn::kNone);
    at::Tensor scores = at::bmm(queries, keys.transpose(1, 2));
    const std::int64_t positions = shape.positions;
    for_score_rows(scores, [&](std::int64_t begin, std::int64_t end) {
      kernels::causal_softmax_forward(scores.data_ptr<float>() + begin * positions, static_cast<std::size_t>(begin),
                                      static_cast<std::size_t>(end - begin), static_cast<std::size_t>(positions),
                                      score_scale(shape));
    });
    const at::Tensor kept = dropout.mask.defined() ? scores * dropout.mask : scores;
    context->save_for_backward({queries, keys, values, scores, dropout.mask, rope.cos, rope.sin});
    context->saved_data["shape"] =
        std::vector<std::int64_t>{shape.batch, shape.positions, shape.heads, shape.kv_heads, shape.head_dim};
    return rearrange<false>(at::bmm(kept, values), rope, shape, shape.heads, Turn::kNone);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &queries = saved[0], &keys = saved[1], &values = saved[2], &probabilities = saved[3],
                     &mask = saved[4];
    const RopeTable rope{saved[5], saved[6]};
    const auto sizes = context->saved_data["shape"].toIntVector();
    const AttentionShape shape{sizes[0], sizes[1], sizes[2], sizes[3], sizes[4]};

    const at::Tensor dmixed = rearrange<true>(gradients[0].contiguous(), rope, shape, shape.heads, Turn::kNone);
    const at::Tensor kept = mask.defined() ? probabilities * mask : probabilities;
    const at::Tensor dvalues = at::bmm(kept.transpose(1, 2), dmixed);
    at::Tensor dscores = at::bmm(dmixed, values.transpose(1, 2));
    if (mask.defined()) dscores.mul_(mask);
    const std::int64_t positions = shape.positions;
    for_score_rows(dscores, [&](std::int64_t begin, std::int64_t end) {
      kernels::causal_softmax_backward(dscores.data_ptr<float>() + begin * positions,
                                       probabilities.data_ptr<float>() + begin * positions,
                                       static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin),
                                       static_cast<std::size_t>(positions), score_scale(shape));
    });
    const at::Tensor dqueries = at::bmm(dscores, keys), dkeys = at::bmm(dscores.transpose(1, 2), queries);
    return {rearrange<false>(dqueries, rope, shape, shape.heads, Turn::kBack),
            rearrange<false>(dkeys, rope, shape, shape.kv_heads, Turn::kBack),
            rearrange<false>(dvalues, rope, shape, shape.kv_heads, Turn::kNone),
            at::Tensor(),
            at::Tensor(),
            at::Tensor()};
  }
};

}  // namespace

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps) {
  if (!x.is_cpu() || x.scalar_type() != at::kFloat) return train::rms_norm(x, weight, eps);
  return RmsNorm::apply(x.contiguous(), weight, eps);
}

at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up) {
  if (!is_plain_cpu(gate)) return train::swiglu(gate, up);
  return SwiGlu::apply(fp32(gate), fp32(up));
}

at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const RopeTable& rope,
                     const AttentionShape& shape, const AttentionDropout& dropout) {
  if (!is_plain_cpu(q)) return train::attention(q, k, v, rope, shape, dropout);
  return Attention::apply(fp32(q), fp32(k), fp32(v), rope, shape, dropout);
}

}  // namespace lockstep::train::fused
