// lockstep report: one HTML file that shows a run, without network.
#include "report/html.h"

#include <fmt/format.h>

#include <filesystem>

#include "commands.h"
#include "output.h"
#include "store/run_reader.h"

namespace lockstep::app {
namespace {

struct ReportOptions {
  std::string run, file;
  Output output;
};

int run_report(const ReportOptions& options) {
  Result<store::RunReader> reader = store::RunReader::open(options.run);
  if (!reader) return fail(reader.error());
  const std::string file =
      options.file.empty() ? (std::filesystem::path(options.run) / "report.html").string() : options.file;
  if (Status status = report::write_report(*reader, file); !status) return fail(status);
  std::error_code ignored;
  const auto bytes = std::filesystem::file_size(file, ignored);
  options.output.print(fmt::format("report: {} ({:.0f} KB)\n", file, static_cast<double>(bytes) / 1000));
  if (!report::has_page()) {
    fmt::print(stderr, "lockstep: this build has no web page inside (npm was missing): the report is plain tables\n");
  }
  return options.output.write_json({{"version", 1}, {"run", options.run}, {"report", file}, {"bytes", bytes}})
             ? kClean
             : kFailure;
}

}  // namespace

void add_report(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<ReportOptions>();
  CLI::App* command = app.add_subcommand("report", "Write a run as one HTML file that needs no network");
  command->footer("Example: lockstep report runs/x -o x.html");
  command->add_option("RUN", options->run, "folder that holds run.sqlite")->required();
  command->add_option("-o,--output", options->file, "file to write (default: RUN/report.html)");
  add_json_option(*command, options->output);
  command->callback([options, &exit_code] { exit_code = run_report(*options); });
}

}  // namespace lockstep::app
