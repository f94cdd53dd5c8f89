// lockstep diagnose: what is wrong in a run, on which ranks, since when, and what to change.
#include <fmt/format.h>

#include <filesystem>

#include "commands.h"
#include "lockstep/diagnosis.h"
#include "output.h"
#include "store/run_reader.h"

namespace lockstep::app {
namespace {

struct DiagnoseOptions {
  std::string run;
  Output output;
};

std::string describe(const Finding& finding) {
  std::string ranks;
  for (std::uint32_t rank : finding.ranks) ranks += fmt::format("{}{}", ranks.empty() ? "" : ", ", rank);
  std::string text = fmt::format("{}\n  {}\n  {} {}, steps {} to {}, {} ({:.4g})\n", finding.cause, finding.message,
                                 finding.ranks.size() == 1 ? "rank" : "ranks", ranks, finding.first_step,
                                 finding.last_step, to_string(finding.certainty), finding.confidence);
  if (!finding.parameters.empty()) {
    text += "  parameters:";
    for (const std::string& name : finding.parameters) text += " " + name;
    text += "\n";
  }
  return text + fmt::format("  evidence: {}\n  remedy: {}\n", finding.evidence, finding.remedy);
}

int run_diagnose(const DiagnoseOptions& options) {
  Result<store::RunReader> reader = store::RunReader::open(options.run);
  if (!reader) return fail(reader.error());
  Result<store::RunSummary> summary = reader->summary();
  if (!summary) return fail(summary.error());
  Result<std::vector<Finding>> findings = reader->findings();
  if (!findings) return fail(findings.error());
  options.output.print(fmt::format("{}: {} workers, {} steps, {} finding{}\n", options.run, summary->info.world,
                                   summary->steps, findings->size(), findings->size() == 1 ? "" : "s"));
  for (const Finding& finding : *findings) options.output.print("\n" + describe(finding));
  const nlohmann::json json =
      nlohmann::json::parse(findings_json(options.run, summary->info.world, summary->steps, *findings));
  if (!options.output.write_json(json)) return kFailure;
  return findings->empty() ? kClean : kFindings;
}

}  // namespace

void add_diagnose(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<DiagnoseOptions>();
  CLI::App* command = app.add_subcommand("diagnose", "What is wrong in a run: rank, cause, step and remedy");
  command->footer("Example: lockstep diagnose runs/x        (exit code 0: clean, 1: findings)");
  command->add_option("RUN", options->run, "folder that holds run.sqlite")->required();
  add_json_option(*command, options->output);
  command->callback([options, &exit_code] { exit_code = run_diagnose(*options); });
}

}  // namespace lockstep::app
