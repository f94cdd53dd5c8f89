#include "study_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <sstream>

#include "output.h"

namespace lockstep::app {
namespace {

using train::Comparison;
using train::Reading;

std::string optional_number(const std::optional<double>& value, int digits = 3) {
  return value ? number(*value, digits) : "-";
}

// The half width decides how many digits of the mean mean something.
std::string with_error(const train::Interval& interval) {
  if (!interval.mean) return "-";
  if (!interval.high) return number(*interval.mean);
  const double half = *interval.high - *interval.mean;
  const double size = std::max(std::abs(*interval.mean), half);
  const double unit = half > 0 ? half : size;
  const int decimals = unit > 0 ? std::clamp(1 - static_cast<int>(std::floor(std::log10(unit))), 0, 6) : 0;
  return fmt::format("{:.{}f} +- {:.{}f}", *interval.mean, decimals, half, decimals);
}

std::string p_text(const std::optional<double>& p) {
  if (!p) return "-";
  return *p < 0.0001 ? "<0.0001" : fmt::format("{:.2g}", *p);
}

std::string expected_text(train::AuthorsExpect expected) {
  switch (expected) {
    case train::AuthorsExpect::kRise:
      return "rise";
    case train::AuthorsExpect::kFall:
      return "fall";
    case train::AuthorsExpect::kSame:
      return "same";
    case train::AuthorsExpect::kNone:
      break;
  }
  return "-";
}

// One row per metric: the neighbours in short, first against last in full.
Table s1_comparisons(const train::StudyAnalysis& analysis, Reading reading) {
  Table table({"metric", "S1-1 to S1-2", "p", "S1-2 to S1-3", "p", "S1-1 to S1-3", "effect", "p", "p (Holm)",
               "authors expect", "found"});
  for (const train::StudyMetric& metric : train::study_metrics()) {
    const Comparison* mild = analysis.find(metric.name, reading, "S1-1", "S1-2");
    const Comparison* rest = analysis.find(metric.name, reading, "S1-2", "S1-3");
    const Comparison* all = analysis.find(metric.name, reading, "S1-1", "S1-3");
    if (all == nullptr) continue;
    const auto difference = [](const Comparison* c) { return c ? optional_number(c->paired.difference.mean) : "-"; };
    const auto p = [](const Comparison* c) { return c ? p_text(c->paired.p_value) : "-"; };
    table.add({std::string(metric.name), difference(mild), p(mild), difference(rest), p(rest),
               with_error(all->paired.difference), optional_number(all->paired.effect, 2), p(all), p_text(all->p_holm),
               expected_text(all->expected), all->found().empty() ? "-" : all->found()});
  }
  return table;
}

Table s2_comparisons(const train::StudyAnalysis& analysis, Reading reading) {
  Table table({"metric", "S2-1 to S2-2", "effect", "p", "p (Holm)", "found"});
  for (const Comparison& c : analysis.comparisons) {
    if (c.reading != reading) continue;
    table.add({c.metric, with_error(c.paired.difference), optional_number(c.paired.effect, 2), p_text(c.paired.p_value),
               p_text(c.p_holm), c.found().empty() ? "-" : c.found()});
  }
  return table;
}

}  // namespace

std::string setting_tables(const train::StudyOutcome& outcome, const train::StudyAnalysis& analysis) {
  std::string text;
  for (Reading reading : outcome.options.readings) {
    std::vector<std::string> header = {"metric"};
    std::vector<const train::SettingResult*> columns;
    for (const train::SettingResult& setting : analysis.settings) {
      if (setting.arm.reading != reading) continue;
      columns.push_back(&setting);
      header.push_back(fmt::format("{} ({} seeds)", setting.arm.setting, setting.seeds.size()));
    }
    Table table(header);
    for (const train::StudyMetric& metric : train::study_metrics()) {
      std::vector<std::string> row = {fmt::format("{:<14} {}", metric.name, metric.title)};
      bool any = false;
      for (const train::SettingResult* setting : columns) {
        const auto* value = setting->find(metric.name);
        row.push_back(value != nullptr ? with_error(value->interval) : "-");
        any = any || value != nullptr;
      }
      if (any) table.add(std::move(row));
    }
    text += fmt::format("{}{} reading: mean over seeds and 95 % interval\n{}", text.empty() ? "" : "\n",
                        train::to_string(reading), table.text());
  }
  return text;
}

std::string comparison_tables(const train::StudyOutcome& outcome, const train::StudyAnalysis& analysis) {
  std::string text;
  const bool s1 = outcome.options.kind == train::StudyKind::kS1;
  for (Reading reading : outcome.options.readings) {
    const Table table = s1 ? s1_comparisons(analysis, reading) : s2_comparisons(analysis, reading);
    text += fmt::format("{}{} reading: differences, paired over seeds\n{}", text.empty() ? "" : "\n",
                        train::to_string(reading), table.text());
  }
  return text;
}

std::string oracle_table(const train::StudyAnalysis& analysis) {
  if (analysis.oracle.empty()) return "";
  Table table({"setting", "reading", "metric", "expected", "measured", "tolerance", "agrees", "expectation"});
  for (const train::OracleCheck& check : analysis.oracle) {
    table.add({check.setting, train::to_string(check.reading), check.metric, number(check.expected, 5),
               number(check.measured, 5), optional_number(check.tolerance, 2),
               !check.tolerance ? "-"
               : check.agrees() ? "yes"
                                : "NO",
               check.formula});
  }
  return "expectations without a free parameter\n" + table.text();
}

std::string diagnosis_table(const train::StudyOutcome& outcome, const std::vector<RunDiagnosis>& diagnoses) {
  struct Cause {
    std::size_t runs = 0;
    std::set<std::uint32_t> ranks;
    std::uint64_t first_step = 0;
  };
  Table table({"setting", "reading", "cause", "in runs", "first step", "ranks"});
  for (const train::StudyArm& arm : outcome.arms) {
    std::map<std::string, Cause> causes;
    std::size_t runs = 0;
    for (const RunDiagnosis& diagnosis : diagnoses) {
      if (diagnosis.arm != arm.label()) continue;
      ++runs;
      for (const Finding& finding : diagnosis.findings) {
        Cause& cause = causes[finding.cause];
        cause.first_step = cause.runs == 0 ? finding.first_step : std::min(cause.first_step, finding.first_step);
        ++cause.runs;
        cause.ranks.insert(finding.ranks.begin(), finding.ranks.end());
      }
    }
    const std::string reading = train::to_string(arm.reading);
    if (runs > 0 && causes.empty()) table.add({arm.setting, reading, "none", "-", "-", "-"});
    for (const auto& [name, cause] : causes) {
      table.add({arm.setting, reading, name, fmt::format("{} of {}", std::min(cause.runs, runs), runs),
                 fmt::format("{}", cause.first_step), fmt::format("{}", fmt::join(cause.ranks, " "))});
    }
  }
  return "what the diagnosis says\n" + table.text();
}

std::string wrapped(const std::string& text, std::size_t width) {
  std::istringstream words(text);
  std::string out, line;
  for (std::string word; words >> word;) {
    if (!line.empty() && line.size() + 1 + word.size() > width) {
      out += line + "\n";
      line.clear();
    }
    line += (line.empty() ? "" : " ") + word;
  }
  return out + line + "\n";
}

}  // namespace lockstep::app
