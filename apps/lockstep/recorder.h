// A run on disk with its diagnosis: what train, study and import attach to what they watch.
#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "lockstep/diagnosis.h"
#include "store/run_writer.h"

namespace lockstep::app {

// Stores every step, diagnoses it, and stores the findings. Lives on rank 0.
class Recorder : public Observer {
 public:
  // A new run, or with `resume` an existing one to append to. Findings are not logged: they are in the run.
  static Result<std::shared_ptr<Recorder>> open(const std::filesystem::path& folder, const store::RunInfo& info,
                                                bool resume = false);

  void on_step(const Step& step, const StepStats& stats) override;
  std::vector<Finding> findings() const { return diagnosis_->findings(); }
  store::RunWriter& writer() { return *writer_; }

  // Stores the last state of the findings and ends the run.
  Status close();

 private:
  explicit Recorder(std::shared_ptr<store::RunWriter> writer);
  std::shared_ptr<store::RunWriter> writer_;
  std::unique_ptr<DiagnosisObserver> diagnosis_;
};

// A diagnosis whose findings go to `writer`.
std::unique_ptr<DiagnosisObserver> make_diagnosis(store::RunWriter& writer);

}  // namespace lockstep::app
