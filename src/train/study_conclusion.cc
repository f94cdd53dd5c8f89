#include "train/study_conclusion.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace lockstep::train {
namespace {

// The paper's three metrics: five numbers.
constexpr std::array<const char*, 6> kPaperMetrics = {"loss_std", "loss_range",  "norm_std",
                                                      "norm_cv",  "cosine_mean", "cosine_pooled"};

std::string percent(double share) {
  return fmt::format("{:.1f} %", 100 * share);
}

std::string list(const std::vector<std::string>& items) {
  std::string text;
  for (std::size_t i = 0; i < items.size(); ++i) {
    text += i == 0 ? "" : i + 1 == items.size() ? " and " : ", ";
    text += items[i];
  }
  return text;
}

std::string p_text(double p) {
  return p < 0.0001 ? "p < 0.0001" : fmt::format("p = {:.2g}", p);
}

std::string setting_value(const StudyAnalysis& analysis, const char* setting, Reading reading, const char* metric,
                          int digits = 3) {
  const SettingResult* result = analysis.find(setting, reading);
  const SettingResult::Value* value = result == nullptr ? nullptr : result->find(metric);
  return value == nullptr ? "-" : fmt::format("{:.{}g}", *value->interval.mean, digits);
}

// The paper's metrics between two settings, sorted by what they did.
struct Movement {
  std::vector<std::string> as_expected, opposite, still;
  double smallest_p = 1;      // unadjusted, of those that stood still
  double largest_change = 0;  // bound of the interval as a share of the first setting's value, of those that did
  std::string largest_of;     // whose
  bool judged() const { return !as_expected.empty() || !opposite.empty() || !still.empty(); }
};

Movement movement(const StudyAnalysis& analysis, Reading reading, const char* from, const char* to) {
  Movement out;
  for (const char* metric : kPaperMetrics) {
    const Comparison* comparison = analysis.find(metric, reading, from, to);
    if (comparison == nullptr || comparison->found().empty()) continue;
    const std::string found = comparison->found();
    if (found == "none") {
      out.still.emplace_back(metric);
      out.smallest_p = std::min(out.smallest_p, *comparison->paired.p_value);
      const SettingResult* first = analysis.find(from, reading);
      const double base = std::abs(*first->find(metric)->interval.mean);
      const Interval& difference = comparison->paired.difference;
      const double bound = std::max(std::abs(*difference.low), std::abs(*difference.high));
      if (base > 0 && bound / base > out.largest_change) {
        out.largest_change = bound / base;
        out.largest_of = metric;
      }
    } else {
      const bool rise = comparison->expected == AuthorsExpect::kRise;
      (found == (rise ? "rise" : "fall") ? out.as_expected : out.opposite).emplace_back(metric);
    }
  }
  return out;
}

std::string coverage_text(const StudyAnalysis& analysis, Reading reading) {
  std::string text;
  for (const OracleCheck& check : analysis.oracle) {
    if (check.reading != reading || check.metric != "coverage") continue;
    text += fmt::format("{}{} leaves {} of the samples unread (expected {})", text.empty() ? "" : ", ", check.setting,
                        percent(1 - check.measured), percent(1 - check.expected));
  }
  return text;
}

std::string sharded_text(const StudyAnalysis& analysis) {
  const Movement moved = movement(analysis, Reading::kSharded, "S1-1", "S1-3");
  std::string text = "Sharded reading (one permutation per seed, each rank takes its slice): ";
  if (!moved.judged()) {
    text += "too few seeds to compare the settings. ";
  } else if (moved.as_expected.empty() && moved.opposite.empty()) {
    text += fmt::format(
        "none of the paper's metrics moves from S1-1 to S1-3 (smallest {}); the 95 % intervals exclude changes beyond "
        "{} ({}). The authors expect dispersion to grow and cosine to fall; here they do not, and should not: under "
        "any "
        "seeds every rank's batch is a random draw from the same data, so losses and gradients keep their "
        "distribution. ",
        p_text(moved.smallest_p), percent(moved.largest_change), moved.largest_of);
  } else {
    text += fmt::format("{} moved from S1-1 to S1-3", list([&] {
                          std::vector<std::string> all = moved.as_expected;
                          all.insert(all.end(), moved.opposite.begin(), moved.opposite.end());
                          return all;
                        }()));
    text += fmt::format(
        " ({}), which independent batches do not explain: repeat with more seeds. ",
        moved.opposite.empty() ? "the way the authors expect" : fmt::format("{} against it", list(moved.opposite)));
  }
  const std::string coverage = coverage_text(analysis, Reading::kSharded);
  if (!coverage.empty()) text += fmt::format("What the seeds do change is the data: {}.", coverage);
  return text;
}

std::string replicated_text(const StudyAnalysis& analysis) {
  const Movement moved = movement(analysis, Reading::kReplicated, "S1-1", "S1-3");
  std::string text = "Replicated reading (every rank walks through the whole permutation of its seed): ";
  if (!moved.judged()) {
    text += "too few seeds to compare the settings. ";
  } else {
    if (!moved.as_expected.empty()) {
      text += fmt::format("from S1-1 to S1-3 {} moved as the authors expect. ", list(moved.as_expected));
    }
    if (!moved.opposite.empty()) text += fmt::format("Against their expectation moved {}. ", list(moved.opposite));
    if (!moved.still.empty()) text += fmt::format("No difference was found in {}. ", list(moved.still));
  }
  const auto row = [&](const char* metric) {
    return fmt::format("{}, {}, {}", setting_value(analysis, "S1-1", Reading::kReplicated, metric),
                       setting_value(analysis, "S1-2", Reading::kReplicated, metric),
                       setting_value(analysis, "S1-3", Reading::kReplicated, metric));
  };
  text += fmt::format(
      "Over S1-1, S1-2, S1-3 the mean cosine is {}, the loss dispersion {}. S1-1 is the extreme case here, not the "
      "healthy one: all ranks do the same work, so agreement means that the workers are wasted.",
      row("cosine_mean"), row("loss_std"));
  return text;
}

std::string loss_text(const StudyAnalysis& analysis, const std::vector<Reading>& readings) {
  std::string text;
  for (Reading reading : readings) {
    std::vector<std::string> apart;
    double smallest = 2;
    double largest_share = 0;
    for (const Comparison& c : analysis.comparisons) {
      if (c.reading != reading || c.metric != "final_loss" || c.found().empty()) continue;
      smallest = std::min(smallest, *c.paired.p_value);
      const SettingResult* from = analysis.find(c.from, reading);
      largest_share = std::max(
          largest_share, std::abs(*c.paired.difference.mean) / std::abs(*from->find("final_loss")->interval.mean));
      if (c.found() != "none")
        apart.push_back(fmt::format("{} and {} ({:+.3g})", c.from, c.to, *c.paired.difference.mean));
    }
    if (smallest > 1) continue;
    text += text.empty() ? "Averaged loss at the end of training: " : " ";
    text += apart.empty()
                ? fmt::format("{}: it does not tell the settings apart (smallest {}, largest difference {} of it).",
                              to_string(reading), p_text(smallest), percent(largest_share))
                : fmt::format("{}: it differs between {}.", to_string(reading), list(apart));
  }
  return text;
}

std::string oracle_text(const StudyAnalysis& analysis) {
  std::size_t judged = 0;
  std::vector<std::string> failed;
  for (const OracleCheck& check : analysis.oracle) {
    if (!check.tolerance) continue;
    ++judged;
    if (!check.agrees()) {
      failed.push_back(fmt::format("{} {} {} ({:.4g}, expected {:.4g})", check.setting, to_string(check.reading),
                                   check.metric, check.measured, check.expected));
    }
  }
  if (judged == 0) return "";
  if (failed.empty()) return fmt::format("All {} predictions without free parameters hold within their error.", judged);
  return fmt::format("{} of {} predictions without free parameters hold within their error; not so {}.",
                     judged - failed.size(), judged, list(failed));
}

std::string precision_text(const StudyAnalysis& analysis, const std::vector<Reading>& readings) {
  std::string text = "S2-1 (fp32) against S2-2 (bf16), on the same batches in the same order: ";
  for (Reading reading : readings) {
    std::vector<std::string> moved;
    std::size_t judged = 0;
    for (const Comparison& c : analysis.comparisons) {
      if (c.reading != reading || c.found().empty()) continue;
      ++judged;
      if (c.found() == "none") continue;
      const double base = *analysis.find(c.from, reading)->find(c.metric)->interval.mean;
      moved.push_back(base == 0 ? c.metric
                                : fmt::format("{} ({:+.2g} %)", c.metric, 100 * *c.paired.difference.mean / base));
    }
    text += fmt::format("{}: {}. ", to_string(reading),
                        judged == 0     ? "too few seeds to compare"
                        : moved.empty() ? "no metric differs"
                                        : list(moved) + (moved.size() == 1 ? " differs" : " differ"));
  }
  text +=
      "The pairs share everything but rounding, so small differences can be certain; compare them with the spread over "
      "seeds before giving them weight.";
  return text;
}

std::string caveat(const StudyOutcome& outcome, const StudyAnalysis& analysis) {
  std::size_t fewest = outcome.base_seeds.size();
  for (const SettingResult& setting : analysis.settings) fewest = std::min(fewest, setting.seeds.size());
  std::size_t tests = 0, below = 0;
  for (const Comparison& c : analysis.comparisons) {
    tests += c.paired.p_value ? 1 : 0;
    below += c.paired.p_value && *c.paired.p_value < kSignificance ? 1 : 0;
  }
  std::string text = fmt::format("{} seed{} per setting; a run is one observation. ", fewest, fewest == 1 ? "" : "s");
  if (tests > 0) {
    text += fmt::format(
        "Intervals are Student-t and wide with so few; p-values are two-sided paired t-tests over seeds. Of {} "
        "comparisons {} have p < {:g}, where chance alone gives about {:.1f}; 'moved' and 'differs' above mean Holm's "
        "adjusted p < {:g} within a reading.",
        tests, below, kSignificance, kSignificance * static_cast<double>(tests), kSignificance);
  }
  return text;
}

}  // namespace

std::vector<std::string> conclude(const StudyOutcome& outcome, const StudyAnalysis& analysis) {
  std::vector<std::string> paragraphs;
  const auto add = [&](std::string text) {
    while (!text.empty() && text.back() == ' ') text.pop_back();
    if (!text.empty()) paragraphs.push_back(std::move(text));
  };
  const bool any = std::any_of(analysis.settings.begin(), analysis.settings.end(),
                               [](const SettingResult& setting) { return !setting.seeds.empty(); });
  if (!any) return {"No run was completed, so there is nothing to conclude."};
  const std::vector<Reading>& readings = outcome.options.readings;
  if (outcome.options.kind == StudyKind::kS2) {
    add(precision_text(analysis, readings));
  } else {
    for (Reading reading : readings) {
      add(reading == Reading::kSharded ? sharded_text(analysis) : replicated_text(analysis));
    }
    add(loss_text(analysis, readings));
  }
  add(oracle_text(analysis));
  add(caveat(outcome, analysis));
  if (outcome.stopped) add("The study was stopped early; what is above is what was complete by then.");
  return paragraphs;
}

}  // namespace lockstep::train
