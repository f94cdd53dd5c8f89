#include "train/study_files.h"

#include <fmt/format.h>

#include <system_error>
#include <utility>

#include "train/file_bytes.h"

namespace lockstep::train {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSummary = "summary.json";
constexpr const char* kSteps = "steps.csv";
constexpr const char* kPartialSteps = "steps.csv.part";

Status io_error(const char* operation, const fs::path& path, const std::error_code& error = {}) {
  return Status(StatusCode::kIo, fmt::format("cannot {} {}: {}", operation, path.string(),
                                             error ? error.message() : "is the disk full or the folder gone?"));
}

std::vector<fs::path> arm_folders(const fs::path& folder) {
  std::vector<fs::path> folders;
  for (StudyKind kind : {StudyKind::kS1, StudyKind::kS2}) {
    for (const StudyArm& arm : study_arms(kind, {Reading::kSharded, Reading::kReplicated}, Precision::kFp32)) {
      folders.push_back(folder / arm.label());
    }
  }
  return folders;
}

std::string cell(const Metric& value) {
  return value ? fmt::format("{:.9g}", *value) : "";
}

// The step's own metrics are repeated on the line of each rank, so that the file is one plain table.
std::string csv_lines(const StudyRunInfo& info, const StudyStep& step) {
  std::string text;
  for (const StudyStep::Rank& rank : step.ranks) {
    text +=
        fmt::format("{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}\n", info.arm.setting,
                    to_string(info.arm.reading), to_string(info.arm.precision), info.base_seed, step.step, rank.rank,
                    rank.rank < info.rank_seeds.size() ? info.rank_seeds[rank.rank] : 0, cell(rank.loss), rank.tokens,
                    cell(rank.norm), cell(rank.leave_one_out), cell(step.loss_mean), cell(step.loss_std),
                    cell(step.loss_range), cell(step.norm_mean), cell(step.norm_std), cell(step.norm_cv),
                    cell(step.cosine_exact), cell(step.cosine_sketch), cell(step.cosine_pooled));
  }
  return text;
}

constexpr const char* kStepsHeader =
    "setting,reading,precision,base_seed,step,rank,rank_seed,loss,tokens,norm,leave_one_out,loss_mean,loss_std,"
    "loss_range,norm_mean,norm_std,norm_cv,cosine_exact,cosine_sketch,cosine_pooled\n";

std::string metrics_header() {
  std::string text = "base_seed,complete,steps,seconds,tokens";
  for (const StudyMetric& metric : study_metrics()) text += fmt::format(",{}", metric.name);
  return text + "\n";
}

std::string metrics_line(const StudyRun& run) {
  std::string text = fmt::format("{},{},{},{:.3f},{}", run.info.base_seed, run.complete ? 1 : 0, run.steps.size(),
                                 run.seconds, run.tokens);
  for (const StudyMetric& metric : study_metrics()) {
    const auto found = run.metrics.find(metric.name);
    text += fmt::format(",{}", cell(found == run.metrics.end() ? Metric() : Metric(found->second)));
  }
  return text + "\n";
}

}  // namespace

StudyFiles::StudyFiles(fs::path folder) : folder_(std::move(folder)) {}

Result<StudyFiles> StudyFiles::create(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return io_error("make the folder", folder, error);
  const bool empty = fs::is_empty(folder, error);
  if (error) return io_error("read the folder", folder, error);
  if (!empty && !fs::exists(folder / kSummary, error) && !fs::exists(folder / kSteps, error) &&
      !fs::exists(folder / kPartialSteps, error)) {
    return Status(StatusCode::kInvalidArgument,
                  fmt::format("{} is not empty and not the output of a study: choose another folder with --out",
                              folder.string()));
  }
  std::vector<fs::path> old = arm_folders(folder);
  for (const char* name : {kSummary, kSteps, kPartialSteps}) old.push_back(folder / name);
  for (const fs::path& path : old) {
    fs::remove_all(path, error);
    if (error) return io_error("remove the earlier", path, error);
  }
  StudyFiles files(folder);
  files.steps_.open(folder / kPartialSteps, std::ios::binary | std::ios::trunc);
  files.steps_ << kStepsHeader << std::flush;
  if (!files.steps_) return io_error("write", folder / kPartialSteps);
  return files;
}

fs::path StudyFiles::run_folder(const StudyRunInfo& info) const {
  const fs::path arm = folder_ / info.arm.label();
  return info.base_seed == kPaperSeed ? arm : arm / fmt::format("seed-{}", info.base_seed);
}

Status StudyFiles::add(const StudyRun& run) {
  for (const StudyStep& step : run.steps) steps_ << csv_lines(run.info, step);
  steps_ << std::flush;
  if (!steps_) return io_error("write", folder_ / kPartialSteps);

  const fs::path arm = folder_ / run.info.arm.label();
  std::error_code error;
  fs::create_directories(arm, error);
  if (error) return io_error("make the folder", arm, error);
  const fs::path path = arm / "metrics.csv";
  const bool is_new = !fs::exists(path, error);
  std::ofstream metrics(path, std::ios::binary | std::ios::app);
  if (is_new) metrics << metrics_header();
  metrics << metrics_line(run) << std::flush;
  return metrics ? Status::ok() : io_error("write", path);
}

Status StudyFiles::finish(const std::string& summary) {
  steps_.close();
  if (!steps_) return io_error("write", folder_ / kPartialSteps);
  std::error_code error;
  fs::rename(folder_ / kPartialSteps, folder_ / kSteps, error);
  if (error) return io_error("put in place", folder_ / kSteps, error);
  return write_file_atomically(folder_ / kSummary, summary);
}

}  // namespace lockstep::train
