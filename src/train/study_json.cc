#include "train/study_json.h"

#include <cmath>
#include <optional>

namespace lockstep::train {
namespace {

using nlohmann::json;

json value_of(const std::optional<double>& value) {
  return value && std::isfinite(*value) ? json(*value) : json(nullptr);
}

std::string text_of(std::string_view title) {
  const std::size_t first = title.find_first_not_of(' ');
  return std::string(title.substr(first));
}

json interval_json(const Interval& interval) {
  return {{"mean", value_of(interval.mean)}, {"low", value_of(interval.low)}, {"high", value_of(interval.high)}};
}

json values_json(const SettingResult& setting, bool with_seeds) {
  json values = json::object();
  for (const SettingResult::Value& value : setting.values) {
    json entry = interval_json(value.interval);
    if (with_seeds) {
      entry["n"] = value.interval.count;
      entry["seeds"] = value.per_seed;
    }
    values[value.metric] = std::move(entry);
  }
  return values;
}

json expected_json(AuthorsExpect expected) {
  switch (expected) {
    case AuthorsExpect::kRise:
      return "rise";
    case AuthorsExpect::kFall:
      return "fall";
    case AuthorsExpect::kSame:
      return "same";
    case AuthorsExpect::kNone:
      break;
  }
  return nullptr;
}

json comparison_json(const Comparison& c) {
  const std::string found = c.found();
  return {{"metric", c.metric},
          {"reading", to_string(c.reading)},
          {"from", c.from},
          {"to", c.to},
          {"difference", value_of(c.paired.difference.mean)},
          {"low", value_of(c.paired.difference.low)},
          {"high", value_of(c.paired.difference.high)},
          {"effect_size", value_of(c.paired.effect)},
          {"p_value", value_of(c.paired.p_value)},
          {"p_sign_flip", value_of(c.paired.p_sign_flip)},
          {"p_holm", value_of(c.p_holm)},
          {"seeds", c.paired.difference.count},
          {"expected", expected_json(c.expected)},
          {"found", found.empty() ? json(nullptr) : json(found)}};
}

json oracle_json(const OracleCheck& check) {
  return {{"setting", check.setting},
          {"reading", to_string(check.reading)},
          {"metric", check.metric},
          {"expected", check.expected},
          {"measured", check.measured},
          {"tolerance", value_of(check.tolerance)},
          {"ok", check.tolerance ? json(check.agrees()) : json(nullptr)},
          {"text", check.formula}};
}

json curve_json(const SettingResult& setting) {
  json step = json::array(), mean = json::array(), low = json::array(), high = json::array();
  for (const SettingResult::CurvePoint& point : setting.curve) {
    step.push_back(point.step);
    mean.push_back(value_of(point.loss.mean));
    low.push_back(value_of(point.loss.low));
    high.push_back(value_of(point.loss.high));
  }
  return {{"step", step}, {"loss_mean", mean}, {"loss_low", low}, {"loss_high", high}};
}

// The folders of an arm's runs, relative to the output folder (study_files.h).
json run_names(const SettingResult& setting) {
  json names = json::array();
  for (std::uint64_t seed : setting.seeds) {
    const std::string arm = setting.arm.label();
    names.push_back(seed == kPaperSeed ? arm : arm + "/seed-" + std::to_string(seed));
  }
  return names;
}

json reading_json(Reading reading, const StudyAnalysis& analysis) {
  json settings = json::array(), comparisons = json::array(), oracle = json::array();
  for (const SettingResult& setting : analysis.settings) {
    if (setting.arm.reading != reading) continue;
    settings.push_back({{"name", setting.arm.setting},
                        {"text", setting.arm.text()},
                        {"runs", run_names(setting)},
                        {"values", values_json(setting, true)},
                        {"curve", curve_json(setting)}});
  }
  for (const Comparison& c : analysis.comparisons) {
    if (c.reading == reading) comparisons.push_back(comparison_json(c));
  }
  for (const OracleCheck& check : analysis.oracle) {
    if (check.reading == reading) oracle.push_back(oracle_json(check));
  }
  return {{"name", to_string(reading)},
          {"text", reading == Reading::kSharded ? "one permutation per seed, each rank takes its slice"
                                                : "every rank walks through the whole permutation of its seed"},
          {"settings", settings},
          {"comparisons", comparisons},
          {"oracle", oracle}};
}

json page_json(const StudyOutcome& outcome, const StudyAnalysis& analysis, const std::vector<std::string>& conclusion,
               const StudyDescription& description) {
  const bool s1 = outcome.options.kind == StudyKind::kS1;
  json metrics = json::array();
  for (const StudyMetric& metric : study_metrics()) {
    metrics.push_back({{"id", metric.name}, {"title", text_of(metric.title)}});
  }
  json readings = json::array();
  for (Reading reading : outcome.options.readings) readings.push_back(reading_json(reading, analysis));
  return {{"name", to_string(outcome.options.kind)},
          {"title", s1 ? "Seeds of the sampler" : "Arithmetic: fp32 against bf16"},
          {"question", s1 ? "Does each metric rise or fall from S1-1 to S1-3, and does the averaged loss tell the "
                            "settings apart?"
                          : "Does bf16 autocast change what the metrics show of healthy workers?"},
          {"created", description.created},
          {"workers", outcome.options.workers},
          {"steps", outcome.options.steps},
          {"seeds", outcome.base_seeds},
          {"metrics", metrics},
          {"readings", readings},
          {"conclusion", conclusion}};
}

}  // namespace

json study_json(const StudyOutcome& outcome, const StudyAnalysis& analysis, const std::vector<std::string>& conclusion,
                const StudyDescription& description) {
  json settings = json::array(), comparisons = json::array(), oracle = json::array();
  for (const SettingResult& setting : analysis.settings) {
    settings.push_back({{"setting", setting.arm.setting},
                        {"reading", to_string(setting.arm.reading)},
                        {"precision", to_string(setting.arm.precision)},
                        {"seeds", setting.seeds},
                        {"metrics", values_json(setting, false)}});
  }
  for (const Comparison& c : analysis.comparisons) comparisons.push_back(comparison_json(c));
  for (const OracleCheck& check : analysis.oracle) oracle.push_back(oracle_json(check));
  std::string text;
  for (const std::string& paragraph : conclusion) text += (text.empty() ? "" : "\n") + paragraph;
  const TrainOptions& train = outcome.options.train;
  return {{"version", kStudyJsonVersion},
          {"settings", settings},
          {"comparisons", comparisons},
          {"oracle", oracle},
          {"conclusion", text},
          {"complete", !outcome.stopped && outcome.error.is_ok()},
          {"seconds", outcome.seconds},
          {"setup",
           {{"workers", outcome.options.workers},
            {"steps", outcome.options.steps},
            {"steps_per_epoch", outcome.steps_per_epoch},
            {"samples", outcome.options.samples},
            {"micro_batch", train.batch.micro_batch},
            {"accumulation", train.batch.accumulation},
            {"learning_rate", train.learning_rate},
            {"model", description.model},
            {"data", description.data},
            {"parameters", description.parameters}}},
          {"study", page_json(outcome, analysis, conclusion, description)}};
}

}  // namespace lockstep::train
