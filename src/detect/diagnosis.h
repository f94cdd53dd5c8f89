// Joins the symptoms of one fault into one finding with the most specific cause, and keeps it over the steps.
// One thread at a time; DiagnosisObserver makes it safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "audit/data_audit.h"
#include "detect/detector.h"
#include "lockstep/diagnosis.h"

namespace lockstep::detect {

struct Update {
  std::size_t index = 0;  // into findings()
  Change change = Change::kNew;
};

class Diagnosis {
 public:
  explicit Diagnosis(const Thresholds& thresholds = {}, std::size_t max_samples = audit::AuditOptions{}.max_samples);
  ~Diagnosis();

  // Looks at the step; says which findings are new, changed or merely lasting.
  const std::vector<Update>& add(const Step& step, const StepStats& stats);

  const std::vector<Finding>& findings() const noexcept { return findings_; }
  std::uint64_t steps() const noexcept { return steps_; }
  Thresholds& thresholds() noexcept { return thresholds_; }

 private:
  struct Case {  // what stands behind a finding
    Json evidence = Json::object();
    Json also = Json::object();  // other causes seen, with ranks and first step
  };
  void take(const Symptom& symptom, std::uint64_t step);
  bool continue_finding(const Symptom& symptom, std::uint64_t step);
  bool explained(const Symptom& symptom, std::uint64_t step);
  bool supersede(const Symptom& symptom, std::uint64_t step);
  void open(const Symptom& symptom, std::uint64_t step);
  void note_also(std::size_t index, std::string_view cause, const Ranks& ranks, std::uint64_t first_step);
  void write(std::size_t index, const Symptom& symptom);
  void report(std::size_t index, Change change);

  Thresholds thresholds_;
  audit::DataAudit audit_;
  std::vector<std::unique_ptr<Detector>> detectors_;
  std::vector<Finding> findings_;
  std::vector<Case> cases_;  // one per finding
  std::vector<Update> updates_;
  std::uint64_t steps_ = 0;
};

}  // namespace lockstep::detect
