// The diagnosis: findings out of analysed steps. Attach a DiagnosisObserver to the monitor of rank 0.
//
// It looks, it does not act: what follows from a finding is the host's. It can log, call back and write a stop file
// that the host may poll. docs/findings.md says what each cause means.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/export.h"
#include "lockstep/finding.h"
#include "lockstep/monitor.h"
#include "lockstep/stats.h"
#include "lockstep/status.h"

namespace lockstep {

// What a user may set of the detectors, also while they run. Rates and effect sizes only: everything else follows from
// the null model.
struct Thresholds {
  // Upper bound of the false alarms per step of a healthy run, over all ranks and all statistical detectors together.
  double false_alarms_per_step = 1e-6;

  // Persistent differences smaller than these are true but no finding.
  double min_loss_offset = 0.02;   // of the mean loss
  double min_norm_factor = 1.1;    // or its inverse
  double min_token_factor = 1.25;  // or its inverse
  double min_cosine_gap = 0.02;    // below the other ranks' leave-one-out cosine

  // Share of the samples of a data set that may have an exact copy in it.
  double natural_duplicates = 0.005;

  // Share of a data set that an epoch may leave out, besides what dropping the last steps explains.
  double coverage_tolerance = 0.005;
};

enum class Change : std::uint8_t { kNew, kChanged, kLasting };  // kLasting: only last_step and evidence moved on

struct DiagnosisOptions {
  Thresholds thresholds;
  std::size_t max_samples = 6'000'000;  // of the data audit: samples remembered exactly

  // What to do with a finding, in any combination. All of it happens on the monitor's thread.
  bool log_findings = true;                     // one line for each that is new or changed
  std::function<void(const std::string&)> log;  // where; default: standard error
  std::function<void(const Finding&, Change)> on_finding;
  std::uint32_t lasting_interval = 50;  // steps between calls for a finding that merely lasts
  std::string stop_file;                // written with the first finding, for a host that polls it; empty: none
};

class LOCKSTEP_API DiagnosisObserver final : public Observer {
 public:
  explicit DiagnosisObserver(DiagnosisOptions options = {});
  ~DiagnosisObserver() override;
  void on_step(const Step& step, const StepStats& stats) override;

  // Any thread.
  std::vector<Finding> findings() const;
  std::uint64_t steps() const;
  Status set(std::string_view threshold, double value);  // takes effect with the next step

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The findings of a run as `diagnose --json` prints them. Steps count from 0.
LOCKSTEP_API std::string findings_json(std::string_view run, std::uint32_t workers, std::uint64_t steps,
                                       std::span<const Finding> findings);

}  // namespace lockstep
