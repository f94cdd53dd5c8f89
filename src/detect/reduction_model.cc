#include "detect/reduction_model.h"

#include <algorithm>
#include <cmath>

namespace lockstep::detect {
namespace {

constexpr double kHalfUlp = 1.0 / 512;  // of bf16
constexpr double kMargin = 4;           // over the root mean square of accumulated roundings
constexpr std::size_t kMostUnknowns = 48;

Vector fold(const std::vector<float>& sketch, std::size_t k) {
  Vector folded(k, 0.0);
  for (std::size_t i = 0; i < sketch.size(); ++i) folded[i % k] += sketch[i];
  return folded;
}

bool usable(const GradientRecord& gradient) {
  return gradient.observed && gradient.nonfinite == 0 && !gradient.sketch.empty();
}

// Least squares sum of x_i columns_i = target by the normal equations and Cholesky; empty when they are singular.
Vector solve(const std::vector<Vector>& columns, const Vector& target) {
  const std::size_t n = columns.size();
  std::vector<Vector> a(n, Vector(n));
  Vector x(n);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j <= i; ++j) a[i][j] = dot(columns[i], columns[j]);
    x[i] = dot(columns[i], target);
  }
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j <= i; ++j) {
      double sum = a[i][j];
      for (std::size_t k = 0; k < j; ++k) sum -= a[i][k] * a[j][k];
      if (i != j) {
        a[i][j] = sum / a[j][j];
      } else {
        if (!(sum > 1e-12 * a[i][i])) return {};
        a[i][i] = std::sqrt(sum);
      }
    }
  }
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t k = 0; k < i; ++k) x[i] -= a[i][k] * x[k];
    x[i] /= a[i][i];
  }
  for (std::size_t i = n; i-- > 0;) {
    for (std::size_t k = i + 1; k < n; ++k) x[i] -= a[k][i] * x[k];
    x[i] /= a[i][i];
  }
  return x;
}

double distance(const std::vector<Vector>& columns, const Vector& x, const Vector& target) {
  double square = 0;
  for (std::size_t b = 0; b < target.size(); ++b) {
    double sum = -target[b];
    for (std::size_t i = 0; i < columns.size(); ++i) sum += x[i] * columns[i][b];
    square += sum * sum;
  }
  return std::sqrt(square);
}

}  // namespace

double dot(const Vector& a, const Vector& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

Multiple multiple_of(const Vector& r, const Vector& v) {
  const double square = dot(v, v);
  if (!(square > 0)) return {};
  const double factor = dot(r, v) / square;
  if (factor == 0) return {0, 1};
  double residual = 0;
  for (std::size_t i = 0; i < r.size(); ++i) residual += (r[i] - factor * v[i]) * (r[i] - factor * v[i]);
  return {factor, std::sqrt(residual / square) / std::abs(factor)};
}

double rounding_bound(std::size_t n) {
  return kMargin * kHalfUlp * (1 + std::sqrt(static_cast<double>(n) / 2));
}

Multiple ReductionModel::against_mean(std::size_t i) const {
  Multiple multiple = multiple_of(reduced[i], mean);
  multiple.residual *= std::sqrt(dot(mean, mean)) / scale;
  return multiple;
}

Multiple ReductionModel::against_local(std::size_t i) const {
  return multiple_of(reduced[i], local[i]);
}

bool ReductionModel::local_is_mean(std::size_t i) const {
  const Multiple own = multiple_of(local[i], mean);
  return own.factor > 0 && own.residual <= rounding_bound(ranks.size());
}

bool ReductionModel::parts_add_up() const {
  const double n = static_cast<double>(ranks.size());
  Vector sum(mean.size(), 0.0);
  for (const Vector& vector : reduced) {
    for (std::size_t b = 0; b < sum.size(); ++b) sum[b] += vector[b] / n;
  }
  const Multiple common = multiple_of(sum, mean);
  if (common.factor > 0 && common.residual <= rounding_bound(ranks.size())) return true;
  if (ranks.size() > kMostUnknowns || mean.size() < 2 * ranks.size()) return false;
  const Vector x = solve(reduced, mean);
  if (x.empty() || std::any_of(x.begin(), x.end(), [](double one) { return one <= 0; })) return false;
  return distance(reduced, x, mean) <= rounding_bound(ranks.size()) * std::sqrt(dot(mean, mean));
}

std::vector<double> ReductionModel::weights(const Vector& vector) const {
  if (ranks.size() > kMostUnknowns || mean.size() < 2 * ranks.size()) return {};
  Vector x = solve(local, vector);
  const double norm = std::sqrt(dot(vector, vector));
  if (x.empty() || distance(local, x, vector) > rounding_bound(ranks.size()) * norm) return {};
  return x;
}

std::optional<ReductionModel> model_of(const Step& step) {
  if (step.records.size() != step.world || step.world < 2) return std::nullopt;
  const std::size_t k = step.records.front().reduced.sketch.size();
  const std::uint64_t count = step.records.front().gradient.count;
  ReductionModel model;
  double squares = 0;
  for (const Record& record : step.records) {
    if (!usable(record.gradient) || !usable(record.reduced) || record.reduced.sketch.size() != k ||
        record.gradient.sketch.size() % k != 0 || record.gradient.count != count || record.reduced.count != count) {
      return std::nullopt;
    }
    model.ranks.push_back(record.rank);
    model.local.push_back(fold(record.gradient.sketch, k));
    model.reduced.emplace_back(record.reduced.sketch.begin(), record.reduced.sketch.end());
    squares += dot(model.local.back(), model.local.back());
  }
  const double n = static_cast<double>(model.ranks.size());
  model.mean.assign(k, 0.0);
  for (const Vector& local : model.local) {
    for (std::size_t b = 0; b < k; ++b) model.mean[b] += local[b] / n;
  }
  model.scale = std::max(std::sqrt(dot(model.mean, model.mean)), std::sqrt(squares / n / n));
  if (!(dot(model.mean, model.mean) > 0)) return std::nullopt;
  return model;
}

}  // namespace lockstep::detect
