#include "detect/diagnosis.h"

#include <fmt/format.h>

#include <algorithm>

#include "detect/causes.h"
#include "detect/detectors.h"
#include "detect/explanations.h"
#include "detect/remedies.h"

namespace lockstep::detect {
namespace {

bool overlap(const Ranks& a, const Ranks& b) {
  return std::any_of(a.begin(), a.end(),
                     [&](std::uint32_t rank) { return std::binary_search(b.begin(), b.end(), rank); });
}

Ranks united(const Ranks& a, const Ranks& b) {
  Ranks all;
  std::set_union(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(all));
  return all;
}

std::vector<audit::RankBatch> batches_of(const Step& step) {
  std::vector<audit::RankBatch> batches;
  batches.reserve(step.records.size());
  for (const Record& record : step.records) {
    batches.push_back({record.rank, record.fingerprints, record.fingerprint_count, record.sampler});
  }
  return batches;
}

}  // namespace

Diagnosis::Diagnosis(const Thresholds& thresholds, std::size_t max_samples)
    : thresholds_(thresholds), audit_({max_samples}), detectors_(make_detectors()) {}

Diagnosis::~Diagnosis() = default;

const std::vector<Update>& Diagnosis::add(const Step& step, const StepStats& stats) {
  updates_.clear();
  ++steps_;
  const audit::AuditReport& audit = audit_.add(step.step, batches_of(step));
  const Observation now{step, stats, audit, thresholds_};
  Symptoms symptoms;
  for (const auto& detector : detectors_) detector->on_step(now, symptoms);
  // Roots first, so that a symptom meets the finding that explains it already open.
  std::stable_sort(symptoms.begin(), symptoms.end(),
                   [](const Symptom& a, const Symptom& b) { return order_of(a.cause) < order_of(b.cause); });
  for (const Symptom& symptom : symptoms) take(symptom, step.step);
  return updates_;
}

void Diagnosis::take(const Symptom& symptom, std::uint64_t step) {
  if (continue_finding(symptom, step) || explained(symptom, step) || supersede(symptom, step)) return;
  open(symptom, step);
}

bool Diagnosis::continue_finding(const Symptom& symptom, std::uint64_t step) {
  for (std::size_t i = 0; i < findings_.size(); ++i) {
    Finding& finding = findings_[i];
    if (finding.cause != symptom.cause || !overlap(finding.ranks, symptom.ranks)) continue;
    const Ranks ranks = symptom.ranks_are_current ? symptom.ranks : united(finding.ranks, symptom.ranks);
    // Certainty only grows: a proof is not lost when a later step shows less.
    const bool stronger = finding.certainty == Certainty::kStatistical && symptom.certainty == Certainty::kCertain;
    const bool changed = ranks != finding.ranks || stronger;
    finding.ranks = ranks;
    if (stronger) finding.certainty = Certainty::kCertain;
    finding.first_step = std::min(finding.first_step, symptom.first_step);
    finding.last_step = std::max(finding.last_step, step);
    finding.confidence = std::max(finding.confidence, symptom.confidence);
    if (changed || symptom.ranks == ranks) write(i, symptom);
    report(i, changed ? Change::kChanged : Change::kLasting);
    return true;
  }
  return false;
}

bool Diagnosis::explained(const Symptom& symptom, std::uint64_t step) {
  for (std::size_t i = 0; i < findings_.size(); ++i) {
    Finding& root = findings_[i];
    if (!explains(root.cause, root.ranks, symptom.cause, symptom.ranks)) continue;
    // A proven symptom that is older than its supposed root has another one. Dates of statistical ones are estimates.
    if (symptom.certainty == Certainty::kCertain && symptom.first_step < root.first_step) continue;
    note_also(i, symptom.cause, symptom.ranks, symptom.first_step);
    root.last_step = std::max(root.last_step, step);
    report(i, Change::kLasting);
    return true;
  }
  return false;
}

// The root of a finding that is already out shows itself only now: the finding takes the more specific cause and keeps
// its id.
bool Diagnosis::supersede(const Symptom& symptom, std::uint64_t step) {
  for (std::size_t i = 0; i < findings_.size(); ++i) {
    Finding& finding = findings_[i];
    if (!explains(symptom.cause, symptom.ranks, finding.cause, finding.ranks)) continue;
    if (finding.certainty == Certainty::kCertain && finding.first_step < symptom.first_step) continue;
    note_also(i, finding.cause, finding.ranks, finding.first_step);
    finding.cause = symptom.cause;
    finding.ranks = symptom.ranks;
    finding.first_step = symptom.first_step;
    finding.last_step = std::max(finding.last_step, step);
    finding.certainty = symptom.certainty;
    finding.confidence = symptom.confidence;
    write(i, symptom);
    report(i, Change::kChanged);
    return true;
  }
  return false;
}

void Diagnosis::open(const Symptom& symptom, std::uint64_t step) {
  Finding finding;
  finding.id = fmt::format("{}-{}", symptom.cause, findings_.size() + 1);
  finding.cause = symptom.cause;
  finding.ranks = symptom.ranks;
  finding.first_step = symptom.first_step;
  finding.last_step = step;
  finding.certainty = symptom.certainty;
  finding.confidence = symptom.confidence;
  findings_.push_back(std::move(finding));
  cases_.emplace_back();
  write(findings_.size() - 1, symptom);
  report(findings_.size() - 1, Change::kNew);
}

void Diagnosis::note_also(std::size_t index, std::string_view cause, const Ranks& ranks, std::uint64_t first_step) {
  Json& entry = cases_[index].also[std::string(cause)];
  if (entry.is_null()) {
    entry = {{"ranks", ranks}, {"first_step", first_step}};
  } else {
    entry["ranks"] = ranks;
  }
  Json evidence = cases_[index].evidence;
  evidence["also"] = cases_[index].also;
  findings_[index].evidence = evidence.dump();
}

void Diagnosis::write(std::size_t index, const Symptom& symptom) {
  Finding& finding = findings_[index];
  finding.message = symptom.message;
  finding.remedy = symptom.remedy.empty() ? remedy_of(symptom.cause) : symptom.remedy;
  if (!symptom.parameters.empty()) finding.parameters = symptom.parameters;
  cases_[index].evidence = symptom.evidence;
  Json evidence = symptom.evidence;
  if (!cases_[index].also.empty()) evidence["also"] = cases_[index].also;
  finding.evidence = evidence.dump();
}

void Diagnosis::report(std::size_t index, Change change) {
  for (Update& update : updates_) {
    if (update.index != index) continue;
    update.change = std::min(update.change, change);
    return;
  }
  updates_.push_back({index, change});
}

}  // namespace lockstep::detect
