// The element loops of the model and its optimizer, on plain fp32 memory, compiled once per instruction set (Highway).
//
// Each works on a range of rows or elements, so that the caller splits the work among threads as it likes: results do
// not depend on the split. No allocation, no exceptions; NaN and infinities pass through as in the plain layers. Sums
// over a row run in the lanes of the vector, so that two instruction sets may differ in the last bits.
#pragma once

#include <cstddef>

namespace lockstep::train::kernels {

// y = x * r * weight per row of `width`, r = 1 / sqrt(mean(x^2) + eps), kept in inverse_rms[rows].
void rms_norm_forward(const float* x, const float* weight, float eps, std::size_t rows, std::size_t width, float* y,
                      float* inverse_rms) noexcept;

// dx from dy per row; adds the rows' part of d(weight) to weight_grad[width].
void rms_norm_backward(const float* dy, const float* x, const float* weight, const float* inverse_rms, std::size_t rows,
                       std::size_t width, float* dx, float* weight_grad) noexcept;

// y = silu(gate) * up
void swiglu_forward(const float* gate, const float* up, std::size_t count, float* y) noexcept;
void swiglu_backward(const float* dy, const float* gate, const float* up, std::size_t count, float* dgate,
                     float* dup) noexcept;

// In place, for rows first_row .. first_row + rows of a score matrix with rows of `positions`: row r belongs to
// position r % positions, keeps entries up to it and zeroes the later ones. `scores` points at the first of the rows.
void causal_softmax_forward(float* scores, std::size_t first_row, std::size_t rows, std::size_t positions,
                            float scale) noexcept;
// In place on the gradient of the probabilities: becomes the gradient of the unscaled scores.
void causal_softmax_backward(float* gradient, const float* probabilities, std::size_t first_row, std::size_t rows,
                             std::size_t positions, float scale) noexcept;

// Rotate-half of one head at one position: out = x rotated by the angles (cos, sin of dim / 2 entries), or back when
// `sign` is -1.
void rotate_head(const float* x, const float* cos, const float* sin, std::size_t dim, float sign, float* out) noexcept;

struct AdamWFactors {
  float gradient_scale;  // clipping
  float decay;           // 1 - lr * weight_decay
  float beta1, beta2;
  float rest1, rest2;  // 1 - beta, rounded once: 1.0f - 0.999f would be off by 5e-5 of itself
  float step_size;     // lr / (1 - beta1^t)
  float correction2;   // sqrt(1 - beta2^t)
  float eps;
};
void adamw_step(const AdamWFactors& factors, std::size_t count, const float* gradient, float* parameter, float* mean,
                float* mean_square) noexcept;

// Sum of squares of `count` values, accumulated in fp64.
double sum_of_squares(const float* x, std::size_t count) noexcept;

}  // namespace lockstep::train::kernels
