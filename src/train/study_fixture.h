// A trainer for tests of the study: least squares on made-up samples, read in the real orders and watched by real
// monitors, without libtorch. Samples are independent, so every expectation of the study is exact here.
#pragma once

#include <chrono>
#include <cmath>
#include <cstddef>
#include <memory>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "lockstep/monitor.h"
#include "train/micro_batches.h"
#include "train/readings.h"
#include "train/study.h"

namespace lockstep::train {

class ToyTraining {
 public:
  static constexpr std::size_t kDimension = 48;

  ToyTraining(std::int64_t samples, std::uint32_t workers, std::uint64_t seed) : samples_(samples), workers_(workers) {
    std::mt19937_64 random(seed);
    std::normal_distribution<double> normal;
    for (std::int64_t i = 0; i < samples; ++i) {
      std::vector<double>& x = rows_.emplace_back(kDimension + 1);
      for (double& value : x) value = normal(random);
      for (std::size_t j = 0; j < kDimension; ++j) x[kDimension] += 0.2 * x[j];  // the target, with unit noise
    }
  }

  Result<TrainResult> train(const TrainOptions& options, const TrainHooks& hooks) const {
    std::vector<std::unique_ptr<Monitor>> monitors;
    auto transports = make_in_process_transports(workers_);
    for (std::uint32_t rank = 0; rank < workers_; ++rank) {
      auto monitor = Monitor::create(rank, workers_, options.watch.monitor, std::move(transports[rank]));
      if (!monitor) return monitor.error();
      monitors.push_back(std::move(*monitor));
    }
    for (const auto& observer : hooks.observers) monitors[0]->add_observer(observer);

    TrainResult result;
    result.total_steps = options.max_steps;
    std::vector<std::vector<std::int64_t>> read(workers_);
    std::vector<double> weights(kDimension, 0.0);
    for (std::int64_t step = 0; step < options.max_steps; ++step) {
      if (hooks.stop != nullptr && hooks.stop->load()) {
        result.stopped = true;
        break;
      }
      StepResult done = run_step(step, options, monitors, weights, read);
      result.final_loss = done.loss;
      if (hooks.after_step) hooks.after_step(done, options.max_steps);
      result.steps.push_back(std::move(done));
    }
    std::vector<std::span<const std::int64_t>> spans(read.begin(), read.end());
    result.coverage = measure_coverage(samples_, spans).value();
    result.monitor = monitors[0]->health();
    return result;
  }

  StudyTrainer trainer() const {
    return [this](const TrainOptions& options, const TrainHooks& hooks) { return train(options, hooks); };
  }

 private:
  StepResult run_step(std::int64_t step, const TrainOptions& options, std::vector<std::unique_ptr<Monitor>>& monitors,
                      std::vector<double>& weights, std::vector<std::vector<std::int64_t>>& read) const {
    StepResult result;
    result.step = step;
    std::vector<float> mean(kDimension), directions(kDimension), gradient(kDimension);
    for (std::uint32_t rank = 0; rank < workers_; ++rank) {
      const double loss = compute(batch(step, rank, options, read[rank]), weights, gradient);
      monitors[rank]->begin_step(static_cast<std::uint64_t>(step));
      monitors[rank]->on_loss(loss, 1);
      monitors[rank]->on_gradient(Segment{0, 0, gradient.data(), gradient.size(), DType::kFloat32});
      const auto norm = static_cast<float>(monitors[rank]->gradient_norm());
      for (std::size_t i = 0; i < kDimension; ++i) {
        mean[i] += gradient[i] / static_cast<float>(workers_);
        directions[i] += gradient[i] / norm;
      }
      result.rank_loss.push_back(loss);
      result.loss += loss / workers_;
    }
    for (std::uint32_t rank = 0; rank < workers_; ++rank) {
      monitors[rank]->on_reduced(Segment{0, 0, mean.data(), mean.size(), DType::kFloat32});
      if (monitors[rank]->wants_direction_sum()) {
        monitors[rank]->on_direction_sum(Segment{0, 0, directions.data(), directions.size(), DType::kFloat32});
      }
      monitors[rank]->end_step();
    }
    for (std::uint32_t rank = workers_; rank-- > 0;) (void)monitors[rank]->flush(std::chrono::seconds(60));
    for (std::size_t i = 0; i < kDimension; ++i) weights[i] -= options.learning_rate * mean[i];
    return result;
  }

  std::vector<std::int64_t> batch(std::int64_t step, std::uint32_t rank, const TrainOptions& options,
                                  std::vector<std::int64_t>& read) const {
    const std::int64_t per_epoch =
        steps_per_epoch(options.reading, samples_, workers_, options.drop_last, options.batch).value();
    const std::int64_t size = options.batch.micro_batch * options.batch.accumulation;
    const auto order = rank_order(options.reading, samples_, workers_, rank, options.seeds[rank],
                                  static_cast<std::uint64_t>(step / per_epoch), options.drop_last);
    const auto first = order->begin() + step % per_epoch * size;
    read.insert(read.end(), first, first + size);
    return {first, first + size};
  }

  double compute(const std::vector<std::int64_t>& batch, const std::vector<double>& weights,
                 std::vector<float>& gradient) const {
    std::vector<double> sum(kDimension);
    double loss = 0;
    for (std::int64_t index : batch) {
      const std::vector<double>& x = rows_[static_cast<std::size_t>(index)];
      double residual = -x[kDimension];
      for (std::size_t i = 0; i < kDimension; ++i) residual += x[i] * weights[i];
      loss += residual * residual / 2;
      for (std::size_t i = 0; i < kDimension; ++i) sum[i] += residual * x[i];
    }
    for (std::size_t i = 0; i < kDimension; ++i) {
      gradient[i] = static_cast<float>(sum[i] / static_cast<double>(batch.size()));
    }
    return loss / static_cast<double>(batch.size());
  }

  std::int64_t samples_;
  std::uint32_t workers_;
  std::vector<std::vector<double>> rows_;  // x and, last, the target
};

inline StudyOptions toy_study(std::size_t seeds, std::int64_t samples) {
  StudyOptions options;
  options.seeds = seeds;
  options.samples = samples;
  options.train.precision = Precision::kFp32;
  options.train.learning_rate = 0.01;
  options.train.watch.monitor.layout.k = 256;
  options.train.watch.monitor.deadline = std::chrono::minutes(2);
  return options;
}

}  // namespace lockstep::train
