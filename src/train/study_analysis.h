// What the runs of a study say together: settings with their intervals, comparisons, and checks against expectations
// that are exact.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "train/study.h"
#include "train/study_stats.h"

namespace lockstep::train {

inline constexpr double kSignificance = 0.05;

struct SettingResult {
  StudyArm arm;
  std::vector<std::uint64_t> seeds;  // of complete runs
  struct Value {
    std::string metric;
    Interval interval;
    std::vector<double> per_seed;  // in the order of `seeds`; shorter where a run had no verdict
  };
  std::vector<Value> values;  // metrics that some run has, in the order of study_metrics()
  struct CurvePoint {
    std::uint64_t step = 0;
    Interval loss;
  };
  std::vector<CurvePoint> curve;  // averaged loss over seeds

  const Value* find(std::string_view metric) const;
};

struct Comparison {
  std::string metric;
  Reading reading = Reading::kSharded;
  std::string from, to;
  PairedComparison paired;       // over the seeds that both settings completed
  std::optional<double> p_holm;  // adjusted for all comparisons of its reading
  AuthorsExpect expected = AuthorsExpect::kNone;

  // By p_holm at kSignificance: "rise", "fall" or "none"; empty when there is no p-value.
  std::string found() const;
};

// A prediction without free parameters beside its measurement.
struct OracleCheck {
  std::string setting;
  Reading reading = Reading::kSharded;
  std::string metric;
  std::string formula;
  double expected = 0, measured = 0;  // means over seeds
  std::optional<double> tolerance;    // of measured - expected; absent when one seed cannot tell
  bool agrees() const;
};

struct StudyAnalysis {
  std::vector<SettingResult> settings;  // in the order of the arms
  std::vector<Comparison> comparisons;
  std::vector<OracleCheck> oracle;

  const SettingResult* find(std::string_view setting, Reading reading) const;
  const Comparison* find(std::string_view metric, Reading reading, std::string_view from, std::string_view to) const;
};

StudyAnalysis analyse_study(const StudyOutcome& outcome);

}  // namespace lockstep::train
