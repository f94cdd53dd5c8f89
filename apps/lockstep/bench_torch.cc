// The digest beside what one would write with libtorch for the same knowledge: norm, isfinite, largest magnitude and a
// projection to k dimensions. Same memory, same run, one thread each, in turns.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <stdexcept>

#include "bench_suites.h"
#include "lockstep/digest.h"

namespace lockstep::app {
namespace {

constexpr std::int64_t kBytes = 256LL << 20;
constexpr int kRounds = 7;

template <class Body>
double seconds(Body body) {
  const auto begin = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

// How often the digest goes over the tensor while libtorch does the same work once.
base::BenchRow compare(const char* name, at::ScalarType scalar, DType dtype) {
  const auto count = kBytes / static_cast<std::int64_t>(size_of(dtype));
  const at::Tensor x = at::randn({count}, at::TensorOptions().dtype(at::kFloat)).to(scalar);
  const at::Tensor signs = (at::randint(0, 2, {kDefaultSketchDim}, at::kFloat) * 2 - 1).to(scalar);
  const Segment segment{0, 0, x.data_ptr(), static_cast<std::uint64_t>(count), dtype};
  DigestAccumulator accumulator;
  double torch_norm = 0, digest_norm = 0;
  std::vector<double> torch_seconds, digest_seconds;
  for (int round = 0; round < kRounds; ++round) {
    torch_seconds.push_back(seconds([&] {
      torch_norm = at::norm(x, 2, at::kFloat).item<double>();
      const bool finite = at::isfinite(x).all().item<bool>();
      const double largest = at::abs(x).max().item<double>();
      const at::Tensor projection = (x.view({-1, kDefaultSketchDim}) * signs).sum(0, false, at::kFloat);
      if (!finite || largest <= 0 || projection.numel() != kDefaultSketchDim) throw std::logic_error("bench: bad data");
    }));
    digest_seconds.push_back(seconds([&] {
      accumulator.reset();
      accumulator.add(segment);
      digest_norm = std::sqrt(accumulator.result().sum_squares);
    }));
  }
  if (std::abs(torch_norm / digest_norm - 1) > 1e-3) throw std::logic_error("bench: libtorch and digest disagree");
  return {name, median(torch_seconds) / median(digest_seconds), "x faster", true, std::nullopt};
}

}  // namespace

Result<std::vector<base::BenchRow>> bench_torch_digest() try {
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const at::NoGradGuard no_grad;
  std::vector<base::BenchRow> rows = {compare("digest.fp32_1t_vs_libtorch", at::kFloat, DType::kFloat32),
                                      compare("digest.bf16_1t_vs_libtorch", at::kBFloat16, DType::kBFloat16)};
  at::set_num_threads(threads);
  return rows;
} catch (const std::exception& error) {
  return Status(StatusCode::kInternal, error.what());
}

}  // namespace lockstep::app
