#include "train/study_oracle.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

namespace lockstep::train {
namespace {

constexpr double kOracleConfidence = 0.99;  // per check, of those that depend on seeds
constexpr double kRounding = 1e-6;          // of cosines and relative dispersions in fp32

double mean(const std::vector<double>& values) {
  return mean_interval(values).mean.value_or(0);
}

class Checks {
 public:
  explicit Checks(const StudyOutcome& outcome) : outcome_(outcome), workers_(outcome.options.workers) {}

  // A value that must be the same in every run.
  void exact(const StudyArm& arm, const char* metric, double expected, const std::string& formula, double tolerance) {
    const ArmRuns runs = runs_of_arm(outcome_, arm);
    const PairedValues values = paired_values(runs, metric, runs, metric);
    if (values.first.empty()) return;
    add(arm, metric, formula, expected, mean(values.first), tolerance);
  }

  // A value that follows from one of the same run or another arm's, seed by seed.
  void follows(const StudyArm& arm, const char* metric, const StudyArm& source, const char* source_metric,
               const std::function<double(double)>& predict, const std::string& formula,
               std::optional<double> known_error = {}) {
    PairedValues values =
        paired_values(runs_of_arm(outcome_, arm), metric, runs_of_arm(outcome_, source), source_metric);
    if (values.first.empty()) return;
    for (double& value : values.second) value = predict(value);
    std::optional<double> tolerance = known_error;
    const Interval gap = compare_paired(values.second, values.first, kOracleConfidence).difference;
    if (!tolerance && gap.high) tolerance = std::max(*gap.high - *gap.mean, kRounding);
    add(arm, metric, formula, mean(values.second), mean(values.first), tolerance);
  }

  void coverage(const StudyArm& arm) {
    const StudyOptions& options = outcome_.options;
    const BatchPlan& batch = options.train.batch;
    Result<std::int64_t> epoch =
        steps_per_epoch(arm.reading, options.samples, options.workers, options.train.drop_last, batch);
    const std::size_t runs = runs_of_arm(outcome_, arm).size();
    if (!epoch || runs == 0) return;
    const ReadPlan plan{options.samples, batch.micro_batch * batch.accumulation, options.steps, *epoch};
    const double expected = expected_coverage(arm.reading, arm.seeds, workers_, plan);
    // Samples are read nearly independently; a set that does not divide by the workers moves a few of them.
    const auto samples = static_cast<double>(options.samples);
    const double spread = std::sqrt(expected * (1 - expected) / (samples * static_cast<double>(runs)));
    exact(arm, "coverage", expected, "1 - product over seeds of what each leaves out", 4 * spread + workers_ / samples);
  }

  std::vector<OracleCheck> take() { return std::move(checks_); }

 private:
  void add(const StudyArm& arm, const char* metric, const std::string& formula, double expected, double measured,
           std::optional<double> tolerance) {
    checks_.push_back({arm.setting, arm.reading, metric, formula, expected, measured, tolerance});
  }

  const StudyOutcome& outcome_;
  std::uint32_t workers_;
  std::vector<OracleCheck> checks_;
};

const StudyArm* find_arm(const StudyOutcome& outcome, SeedSetting seeds, Reading reading) {
  for (const StudyArm& arm : outcome.arms) {
    if (arm.seeds == seeds && arm.reading == reading) return &arm;
  }
  return nullptr;
}

void check_replicated(const StudyOutcome& outcome, Checks& checks) {
  const std::uint32_t workers = outcome.options.workers;
  for (const StudyArm& arm : outcome.arms) {
    if (arm.reading != Reading::kReplicated || arm.seeds != SeedSetting::kS1_1) continue;
    checks.exact(arm, "cosine_mean", 1, "1: all ranks have one batch", kRounding);
    checks.exact(arm, "loss_std", 0, "0", kRounding);
    checks.exact(arm, "norm_cv", 0, "0", kRounding);
  }
  const StudyArm* mild = find_arm(outcome, SeedSetting::kS1_2, Reading::kReplicated);
  const StudyArm* apart = find_arm(outcome, SeedSetting::kS1_3, Reading::kReplicated);
  if (mild == nullptr || apart == nullptr) return;

  const auto cosine = [&](double c) { return replicated_cosine(SeedSetting::kS1_2, workers, c); };
  const auto variance = [&](double v) { return v * replicated_variance(SeedSetting::kS1_2, workers); };
  const double share = 2.0 / workers;
  const std::string formula = fmt::format("{:.4g} + {:.4g} c", 1 - share, share);
  const auto k = static_cast<double>(outcome.options.train.watch.monitor.layout.k);
  checks.follows(*mild, "cosine_mean", *mild, "cosine_rank0", cosine, formula + ", c of rank 0 in the same run",
                 share * 3 / std::sqrt(k));
  checks.follows(*mild, "cosine_mean", *apart, "cosine_mean", cosine, formula + ", c of S1-3");
  checks.follows(*mild, "loss_variance", *apart, "loss_variance", variance, fmt::format("{:.4g} of S1-3", share));
  checks.follows(*mild, "norm_variance", *apart, "norm_variance", variance, fmt::format("{:.4g} of S1-3", share));
  if (const StudyArm* disjoint = find_arm(outcome, SeedSetting::kS1_1, Reading::kSharded)) {
    const auto same = [](double c) { return c; };
    checks.follows(*apart, "cosine_mean", *disjoint, "cosine_mean", same, "c, that of sharded S1-1");
  }
}

}  // namespace

PairedValues paired_values(const ArmRuns& first, std::string_view first_metric, const ArmRuns& second,
                           std::string_view second_metric) {
  PairedValues values;
  for (const auto& [seed, run] : first) {
    const auto other = second.find(seed);
    if (other == second.end()) continue;
    const auto a = run->metrics.find(first_metric);
    const auto b = other->second->metrics.find(second_metric);
    if (a == run->metrics.end() || b == other->second->metrics.end()) continue;
    values.first.push_back(a->second);
    values.second.push_back(b->second);
  }
  return values;
}

ArmRuns runs_of_arm(const StudyOutcome& outcome, const StudyArm& arm) {
  ArmRuns runs;
  for (const StudyRun& run : outcome.runs) {
    if (run.complete && run.info.arm.label() == arm.label()) runs.emplace(run.info.base_seed, &run);
  }
  return runs;
}

std::vector<OracleCheck> check_oracle(const StudyOutcome& outcome) {
  Checks checks(outcome);
  if (outcome.options.train.dropout == 0) check_replicated(outcome, checks);
  for (const StudyArm& arm : outcome.arms) checks.coverage(arm);
  return checks.take();
}

}  // namespace lockstep::train
