// The diagnosis as an observer of a monitor: locking, and what is done with a finding.
#include <fmt/format.h>

#include <cstdio>
#include <fstream>
#include <map>
#include <mutex>
#include <utility>

#include "base/log.h"
#include "detect/ballot.h"
#include "detect/diagnosis.h"
#include "detect/thresholds.h"
#include "lockstep/diagnosis.h"

namespace lockstep {

using detect::Diagnosis;

struct DiagnosisObserver::State {
  explicit State(DiagnosisOptions given)
      : options(std::move(given)), diagnosis(options.thresholds, options.max_samples) {}

  const DiagnosisOptions options;
  mutable std::mutex mutex;
  Diagnosis diagnosis;
  std::map<std::size_t, std::uint64_t> told;  // finding -> step at which it was last passed on
  bool stop_written = false;

  // The updates to pass on now; a finding that merely lasts is held back to one call per interval.
  std::vector<std::pair<Finding, Change>> due(const std::vector<detect::Update>& updates, std::uint64_t step) {
    std::vector<std::pair<Finding, Change>> out;
    for (const detect::Update& update : updates) {
      const auto at = told.find(update.index);
      const bool hold =
          update.change == Change::kLasting && at != told.end() && step < at->second + options.lasting_interval;
      if (hold) continue;
      told[update.index] = step;
      out.emplace_back(diagnosis.findings()[update.index], update.change);
    }
    return out;
  }

  void write_stop_file(const Finding& finding, std::uint32_t world) {
    if (options.stop_file.empty() || stop_written) return;
    stop_written = true;
    const std::string part = options.stop_file + ".part";
    std::ofstream out(part);
    out << findings_json("", world, diagnosis.steps(), {&finding, 1}) << '\n';
    out.close();
    // Renamed into place, so that a host that polls never reads half of it.
    if (!out || std::rename(part.c_str(), options.stop_file.c_str()) != 0) {
      base::log_line(options.log,
                     fmt::format("cannot write the stop file {}: check its folder and space", options.stop_file));
    }
  }
};

DiagnosisObserver::DiagnosisObserver(DiagnosisOptions options) : state_(std::make_unique<State>(std::move(options))) {}
DiagnosisObserver::~DiagnosisObserver() = default;

void DiagnosisObserver::on_step(const Step& step, const StepStats& stats) {
  std::vector<std::pair<Finding, Change>> due;
  {
    const std::lock_guard lock(state_->mutex);
    due = state_->due(state_->diagnosis.add(step, stats), step.step);
  }
  // Outside the lock: a callback may ask for findings() or set thresholds.
  for (const auto& [finding, change] : due) {
    if (change != Change::kLasting) {
      if (state_->options.log_findings) {
        base::log_line(state_->options.log,
                       fmt::format("{} since step {} ({}): {}. To do: {}", finding.cause, finding.first_step,
                                   detect::name_ranks(finding.ranks, step.world), finding.message, finding.remedy));
      }
      state_->write_stop_file(finding, step.world);
    }
    if (state_->options.on_finding) state_->options.on_finding(finding, change);
  }
}

std::vector<Finding> DiagnosisObserver::findings() const {
  const std::lock_guard lock(state_->mutex);
  return state_->diagnosis.findings();
}

std::uint64_t DiagnosisObserver::steps() const {
  const std::lock_guard lock(state_->mutex);
  return state_->diagnosis.steps();
}

Status DiagnosisObserver::set(std::string_view threshold, double value) {
  const std::lock_guard lock(state_->mutex);
  return detect::set_threshold(state_->diagnosis.thresholds(), threshold, value);
}

}  // namespace lockstep
