#include "train/blas_probe.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/core.h>

#include <algorithm>
#include <chrono>

namespace lockstep::train {
namespace {

constexpr std::int64_t kSide = 256;
constexpr double kSlowGflops = 5.0;  // netlib gives 2 to 3, OpenBLAS 30 and more on one core of the last ten years

}  // namespace

double matrix_product_gflops() {
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const at::NoGradGuard no_grad;
  const at::Tensor a = at::ones({kSide, kSide}), b = at::ones({kSide, kSide});
  double best = 0;
  for (int i = 0; i < 4; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    const at::Tensor c = at::mm(a, b);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    best = std::max(best, 2.0 * kSide * kSide * kSide / std::max(seconds, 1e-9) * 1e-9);
  }
  at::set_num_threads(threads);
  return best;
}

std::optional<std::string> slow_blas_advice(double gflops) {
  if (gflops >= kSlowGflops) return std::nullopt;
  return fmt::format(
      "libtorch multiplies matrices at {:.1f} GFLOP/s: the system's BLAS is the reference one. Install a "
      "fast one (Debian: apt-get install libopenblas0-openmp) for training some fifty times faster",
      gflops);
}

}  // namespace lockstep::train
