// lockstep demo: eight workers on a problem whose metrics are known in closed form, watched by real monitors.
//
// Least squares at a fixed point w: samples x ~ N(0, I_d), residual r = x.(w - w*) - s e. Each worker's gradient is the
// mean of r x over its batch of b samples, so with D = |w - w*|^2 and v = D + s^2:
//   E[g] = w - w*, E|g|^2 = D + T/b with T = D (d + 1) + s^2 d, pooled cosine of independent workers c = D / (D + T/b);
//   a worker's loss has mean v/2 and standard deviation v/sqrt(2 b).
// The three settings are the paper's in its "replicated" reading: all workers on one batch, one worker apart, all
// apart.
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <mutex>
#include <random>
#include <vector>

#include "commands.h"
#include "lockstep/monitor.h"
#include "output.h"

namespace lockstep::app {
namespace {

constexpr int kWorkers = 8;
constexpr int kDimension = 256;
constexpr int kBatch = 64;
constexpr double kNoise = 0.5;

struct DemoOptions {
  int steps = 100;
  std::uint64_t seed = 42;
  Output output;
};

// Sums of squares over steps (dispersions are averaged as variances, which is what has a closed form), and of cosines.
struct Sums : Observer {
  void on_step(const Step&, const StepStats& stats) override {
    const std::lock_guard lock(mutex);
    ++steps;
    loss_variance += std::pow(stats.loss_std.value_or(0), 2);
    norm_variance += std::pow(stats.norm_cv.value_or(0), 2);
    cosine += stats.cosine_mean.value_or(0);
    square_of_mean += std::pow(stats.reduced_norm.value_or(0), 2);
    for (const RankStats& rank : stats.ranks) mean_of_squares += std::pow(rank.norm.value_or(0), 2) / kWorkers;
  }
  double pooled() const { return (kWorkers * square_of_mean / mean_of_squares - 1) / (kWorkers - 1); }
  std::mutex mutex;
  int steps = 0;
  double loss_variance = 0, norm_variance = 0, cosine = 0, square_of_mean = 0, mean_of_squares = 0;
};

// One worker's batch at the fixed point: its gradient and its loss.
double compute(std::uint64_t batch_seed, const std::vector<double>& delta, std::vector<float>& gradient) {
  std::mt19937_64 random(batch_seed);
  std::normal_distribution<double> normal;
  std::vector<double> sum(kDimension), x(kDimension);
  double loss = 0;
  for (int sample = 0; sample < kBatch; ++sample) {
    double residual = -kNoise * normal(random);
    for (int i = 0; i < kDimension; ++i) {
      x[i] = normal(random);
      residual += x[i] * delta[i];
    }
    loss += residual * residual / 2 / kBatch;
    for (int i = 0; i < kDimension; ++i) sum[i] += residual * x[i] / kBatch;
  }
  for (int i = 0; i < kDimension; ++i) gradient[i] = static_cast<float>(sum[i]);
  return loss;
}

// `stream(rank)` says which worker's data a rank reads.
template <class Stream>
std::shared_ptr<Sums> run_setting(const DemoOptions& options, Stream stream) {
  auto transports = make_in_process_transports(kWorkers);
  auto sums = std::make_shared<Sums>();
  std::vector<std::unique_ptr<Monitor>> monitors;
  for (int rank = 0; rank < kWorkers; ++rank) {
    monitors.push_back(std::move(Monitor::create(rank, kWorkers, {}, std::move(transports[rank])).value()));
  }
  monitors[0]->add_observer(sums);
  const std::vector<double> delta(kDimension, 1.0 / std::sqrt(kDimension));
  std::vector<float> gradient(kDimension), mean(kDimension);
  for (int step = 0; step < options.steps; ++step) {
    std::fill(mean.begin(), mean.end(), 0.0F);
    for (int rank = 0; rank < kWorkers; ++rank) {
      monitors[rank]->begin_step(step);
      const double loss = compute(options.seed + 1000003ULL * step + 101ULL * stream(rank), delta, gradient);
      monitors[rank]->on_loss(loss, kBatch);
      monitors[rank]->on_gradient({0, 0, gradient.data(), gradient.size(), DType::kFloat32});
      for (int i = 0; i < kDimension; ++i) mean[i] += gradient[i] / kWorkers;
    }
    for (int rank = 0; rank < kWorkers; ++rank) {
      monitors[rank]->on_reduced({0, 0, mean.data(), mean.size(), DType::kFloat32});
      monitors[rank]->end_step();
    }
    for (int rank = kWorkers - 1; rank >= 0; --rank) (void)monitors[rank]->flush(std::chrono::seconds(30));
  }
  return sums;
}

int run_demo(const DemoOptions& options) {
  const double trace = (kDimension + 1) + kNoise * kNoise * kDimension;
  const double independent = 1 / (1 + trace / kBatch);
  const double loss_variance = std::pow(1 + kNoise * kNoise, 2) / (2 * kBatch);
  struct Setting {
    const char* name;
    std::uint64_t (*stream)(int);
    double cosine;      // expected
    double dispersion;  // expected variance over workers, as a share of one worker's variance
  };
  const std::array<Setting, 3> settings = {{
      {"all workers on the same batches", [](int) -> std::uint64_t { return 1; }, 1, 0},
      {"worker 0 apart, the others alike", [](int rank) -> std::uint64_t { return rank == 0 ? 7 : 1; },
       0.75 + 0.25 * independent, 2.0 * 7 / 64},
      {"every worker on its own batches", [](int rank) -> std::uint64_t { return rank; }, independent, 7.0 / 8},
  }};

  Table table({"setting", "loss std", "expected", "norm std/mean", "cosine", "expected"});
  nlohmann::json json = {
      {"version", 1}, {"workers", kWorkers}, {"steps", options.steps}, {"settings", nlohmann::json::array()}};
  for (const Setting& setting : settings) {
    const std::shared_ptr<Sums> sums = run_setting(options, setting.stream);
    const double loss_std = std::sqrt(sums->loss_variance / sums->steps);
    const double norm_cv = std::sqrt(sums->norm_variance / sums->steps);
    const double expected_loss_std = std::sqrt(setting.dispersion * loss_variance);
    table.add({setting.name, fmt::format("{:.4f}", loss_std), fmt::format("{:.4f}", expected_loss_std),
               fmt::format("{:.4f}", norm_cv), fmt::format("{:.4f}", sums->pooled()),
               fmt::format("{:.4f}", setting.cosine)});
    json["settings"].push_back({{"setting", setting.name},
                                {"loss_std", loss_std},
                                {"loss_std_expected", expected_loss_std},
                                {"norm_cv", norm_cv},
                                {"cosine_mean", sums->cosine / sums->steps},
                                {"cosine_pooled", sums->pooled()},
                                {"cosine_expected", setting.cosine}});
  }
  options.output.print(fmt::format(
      "{} workers in one process, {} steps, least squares in {} dimensions, {} samples per worker (seed {}).\n"
      "The averaged loss of all three settings is the same curve; the workers behind it are not:\n\n",
      kWorkers, options.steps, kDimension, kBatch, options.seed));
  options.output.print(table.text());
  options.output.print("\nExpected: closed forms, in the head of apps/lockstep/demo.cc.\n");
  return options.output.write_json(json) ? kClean : kFailure;
}

}  // namespace

void add_demo(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<DemoOptions>();
  CLI::App* command = app.add_subcommand("demo", "Eight workers on a toy problem with a known answer");
  command->footer("Example: lockstep demo --steps 200");
  command->add_option("--steps", options->steps, "steps per setting")
      ->capture_default_str()
      ->check(CLI::Range(1, 100000));
  command->add_option("--seed", options->seed, "of the data")->capture_default_str();
  add_json_option(*command, options->output);
  command->callback([options, &exit_code] { exit_code = run_demo(*options); });
}

}  // namespace lockstep::app
