// lockstep import: per-rank JSON lines of a training that Lockstep did not watch become a run.
#include <fmt/format.h>

#include <filesystem>

#include "commands.h"
#include "lockstep/stats.h"
#include "output.h"
#include "recorder.h"
#include "store/import_jsonl.h"

namespace lockstep::app {
namespace {

struct ImportOptions {
  std::vector<std::string> files;
  std::string run;
  Output output;
};

constexpr std::size_t kShownBadLines = 10;

int run_import(const ImportOptions& options) {
  const std::vector<std::filesystem::path> files(options.files.begin(), options.files.end());
  store::RunInfo info;
  info.command = "lockstep import";
  StatsEngine engine;
  std::unique_ptr<DiagnosisObserver> diagnosis;
  Result<store::ImportSummary> summary = store::import_jsonl(
      files, options.run, info, [&](const Step& step) { return engine.update(step); },
      [&](store::RunWriter& writer, const Step& step, const StepStats& stats) {
        if (!diagnosis) diagnosis = make_diagnosis(writer);
        diagnosis->on_step(step, stats);
      });
  if (!summary) return fail(summary.error());
  for (std::size_t i = 0; i < summary->bad_lines.size() && i < kShownBadLines; ++i) {
    const store::BadLine& bad = summary->bad_lines[i];
    fmt::print(stderr, "{}:{}: {}\n", bad.file, bad.line, bad.reason);
  }
  if (summary->bad > kShownBadLines) fmt::print(stderr, "... and {} more bad lines\n", summary->bad - kShownBadLines);
  options.output.print(fmt::format("{} lines of {} files: {} kept, {} bad; {} steps of {} ranks in {}\n",
                                   summary->lines, summary->files, summary->accepted, summary->bad, summary->steps,
                                   summary->world, options.run));
  if (diagnosis) {
    options.output.print(
        fmt::format("{} findings; lockstep diagnose {} shows them\n", diagnosis->findings().size(), options.run));
  }
  if (summary->micro_steps_numbered) {
    options.output.print("The logs number micro-steps; steps are numbered anew, one per synchronisation.\n");
  }
  return options.output.write_json(nlohmann::json::parse(store::to_json(*summary))) ? kClean : kFailure;
}

}  // namespace

void add_import(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<ImportOptions>();
  CLI::App* command = app.add_subcommand("import", "Make a run from per-rank JSON lines (docs/import.md)");
  command->footer("Example: lockstep import logs/rank*.jsonl --run runs/old && lockstep diagnose runs/old");
  command->add_option("FILES", options->files, "JSON lines, one file per rank or all in one")->required();
  command->add_option("--run", options->run, "folder to make")->required();
  add_json_option(*command, options->output);
  command->callback([options, &exit_code] { exit_code = run_import(*options); });
}

}  // namespace lockstep::app
