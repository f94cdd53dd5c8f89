#include "train/study_analysis.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "train/study_oracle.h"

namespace lockstep::train {
namespace {

// Averaged loss over seeds at each step that all complete runs have.
std::vector<SettingResult::CurvePoint> loss_curve(const ArmRuns& runs) {
  std::vector<SettingResult::CurvePoint> curve;
  std::size_t steps = runs.empty() ? 0 : runs.begin()->second->steps.size();
  for (const auto& [seed, run] : runs) steps = std::min(steps, run->steps.size());
  for (std::size_t i = 0; i < steps; ++i) {
    std::vector<double> losses;
    for (const auto& [seed, run] : runs) {
      if (run->steps[i].loss_mean) losses.push_back(*run->steps[i].loss_mean);
    }
    curve.push_back({runs.begin()->second->steps[i].step, mean_interval(losses)});
  }
  return curve;
}

SettingResult summarise(const StudyArm& arm, const ArmRuns& runs) {
  SettingResult result;
  result.arm = arm;
  for (const auto& [seed, run] : runs) result.seeds.push_back(seed);
  for (const StudyMetric& metric : study_metrics()) {
    SettingResult::Value value;
    value.metric = metric.name;
    for (const auto& [seed, run] : runs) {
      if (auto found = run->metrics.find(metric.name); found != run->metrics.end()) {
        value.per_seed.push_back(found->second);
      }
    }
    if (value.per_seed.empty()) continue;
    value.interval = mean_interval(value.per_seed);
    result.values.push_back(std::move(value));
  }
  result.curve = loss_curve(runs);
  return result;
}

// Comparisons of one reading, with p-values adjusted for each other.
std::vector<Comparison> compare(StudyKind kind, Reading reading, const std::map<std::string, ArmRuns>& runs_of) {
  std::vector<Comparison> comparisons;
  for (const StudyMetric& metric : study_metrics()) {
    if (!metric.compared) continue;
    for (const auto& [from, to] : study_comparisons(kind)) {
      const PairedValues values = paired_values(runs_of.at(from), metric.name, runs_of.at(to), metric.name);
      if (values.first.empty()) continue;
      Comparison comparison;
      comparison.metric = metric.name;
      comparison.reading = reading;
      comparison.from = from;
      comparison.to = to;
      comparison.paired = compare_paired(values.first, values.second);
      if (kind == StudyKind::kS1) comparison.expected = metric.expected;
      comparisons.push_back(std::move(comparison));
    }
  }
  std::vector<std::optional<double>> p_values;
  for (const Comparison& comparison : comparisons) p_values.push_back(comparison.paired.p_value);
  const auto adjusted = holm_adjust(p_values);
  for (std::size_t i = 0; i < comparisons.size(); ++i) comparisons[i].p_holm = adjusted[i];
  return comparisons;
}

}  // namespace

const SettingResult::Value* SettingResult::find(std::string_view metric) const {
  const auto found = std::find_if(values.begin(), values.end(), [&](const Value& v) { return v.metric == metric; });
  return found == values.end() ? nullptr : &*found;
}

std::string Comparison::found() const {
  if (!p_holm || !paired.difference.mean) return "";
  if (*p_holm >= kSignificance) return "none";
  return *paired.difference.mean > 0 ? "rise" : "fall";
}

bool OracleCheck::agrees() const {
  return !tolerance || std::abs(measured - expected) <= *tolerance;
}

const SettingResult* StudyAnalysis::find(std::string_view setting, Reading reading) const {
  for (const SettingResult& result : settings) {
    if (result.arm.setting == setting && result.arm.reading == reading) return &result;
  }
  return nullptr;
}

const Comparison* StudyAnalysis::find(std::string_view metric, Reading reading, std::string_view from,
                                      std::string_view to) const {
  for (const Comparison& c : comparisons) {
    if (c.metric == metric && c.reading == reading && c.from == from && c.to == to) return &c;
  }
  return nullptr;
}

StudyAnalysis analyse_study(const StudyOutcome& outcome) {
  StudyAnalysis analysis;
  std::map<Reading, std::map<std::string, ArmRuns>> runs_of;
  for (const StudyArm& arm : outcome.arms) {
    ArmRuns runs = runs_of_arm(outcome, arm);
    analysis.settings.push_back(summarise(arm, runs));
    runs_of[arm.reading].emplace(arm.setting, std::move(runs));
  }
  for (Reading reading : outcome.options.readings) {
    for (Comparison& comparison : compare(outcome.options.kind, reading, runs_of.at(reading))) {
      analysis.comparisons.push_back(std::move(comparison));
    }
  }
  analysis.oracle = check_oracle(outcome);
  return analysis;
}

}  // namespace lockstep::train
