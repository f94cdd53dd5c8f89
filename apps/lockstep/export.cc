// lockstep export: a run for other tools.
#include <fmt/format.h>

#include <filesystem>

#include "commands.h"
#include "export/table_export.h"
#include "export/tensorboard.h"
#include "output.h"
#include "store/run_reader.h"

namespace lockstep::app {
namespace {

struct ExportOptions {
  std::string run, format, folder;
};

int run_export(const ExportOptions& options) {
  Result<store::RunReader> reader = store::RunReader::open(options.run);
  if (!reader) return fail(reader.error());
  const std::filesystem::path folder = options.folder.empty() ? std::filesystem::path(options.run) / options.format
                                                              : std::filesystem::path(options.folder);
  const Status status = options.format == "csv"     ? exports::export_csv(*reader, folder)
                        : options.format == "jsonl" ? exports::export_jsonl(*reader, folder)
                                                    : exports::export_tensorboard(*reader, folder);
  if (!status) return fail(status);
  fmt::print("{}: {}\n", options.format, folder.string());
  return kClean;
}

}  // namespace

void add_export(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<ExportOptions>();
  CLI::App* command = app.add_subcommand("export", "Write a run as CSV, JSON lines or TensorBoard events");
  command->footer("Example: lockstep export runs/x --format tensorboard -o tb && tensorboard --logdir tb");
  command->add_option("RUN", options->run, "folder that holds run.sqlite")->required();
  command->add_option("--format", options->format, "csv, jsonl or tensorboard")
      ->required()
      ->check(CLI::IsMember({"csv", "jsonl", "tensorboard"}));
  command->add_option("-o,--output", options->folder, "folder to write (default: RUN/FORMAT)");
  command->callback([options, &exit_code] { exit_code = run_export(*options); });
}

}  // namespace lockstep::app
