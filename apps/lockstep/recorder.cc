#include "recorder.h"

namespace lockstep::app {

std::unique_ptr<DiagnosisObserver> make_diagnosis(store::RunWriter& writer) {
  DiagnosisOptions options;
  options.log_findings = false;
  options.on_finding = [&writer](const Finding& finding, Change) { writer.put_finding(finding); };
  return std::make_unique<DiagnosisObserver>(std::move(options));
}

Recorder::Recorder(std::shared_ptr<store::RunWriter> writer)
    : writer_(std::move(writer)), diagnosis_(make_diagnosis(*writer_)) {}

Result<std::shared_ptr<Recorder>> Recorder::open(const std::filesystem::path& folder, const store::RunInfo& info,
                                                 bool resume) {
  Result<std::shared_ptr<store::RunWriter>> writer = resume && std::filesystem::exists(folder / "run.sqlite")
                                                         ? store::RunWriter::open(folder)
                                                         : store::RunWriter::create(folder, info);
  if (!writer) return writer.error();
  return std::shared_ptr<Recorder>(new Recorder(std::move(*writer)));
}

void Recorder::on_step(const Step& step, const StepStats& stats) {
  writer_->on_step(step, stats);
  diagnosis_->on_step(step, stats);
}

Status Recorder::close() {
  for (Finding& finding : diagnosis_->findings()) writer_->put_finding(std::move(finding));
  return writer_->close(std::chrono::seconds(30));
}

}  // namespace lockstep::app
