// lockstep bench: speed and size, as ratios taken within one run. Machines are noisy: only ratios compare.
#include <fmt/format.h>

#include <functional>

#include "bench_suites.h"
#include "commands.h"
#include "digest/digest_bench.h"
#include "lockstep/record.h"
#include "output.h"
#include "stats/stats_bench.h"

namespace lockstep::app {

Result<std::vector<base::BenchRow>> bench_exchange() {
  std::vector<base::BenchRow> rows;
  const auto record = static_cast<double>(packed_size(RecordLayout{}));
  rows.push_back({"exchange.record", record, "bytes/rank/step", false, std::nullopt});
  rows.push_back({"exchange.record_without_sketch", static_cast<double>(packed_size(RecordLayout{}, false)),
                  "bytes/rank/step", false, std::nullopt});
  for (const auto& [name, parameters] : {std::pair{"25M", 25.5e6}, {"1B", 1155912192.0}}) {
    rows.push_back({fmt::format("exchange.share_of_gathering_gradients_{}", name), record / (4 * parameters), "ratio",
                    false, std::nullopt});
  }
  return rows;
}

namespace {

struct Suite {
  const char* name;
  const char* what;
  std::function<Result<std::vector<base::BenchRow>>()> run;
};

const std::vector<Suite>& suites() {
  static const std::vector<Suite> all = {
      {"digest", "digest and hash against a plain read of the same memory", [] { return digests::run_digest_bench(); }},
#ifdef LOCKSTEP_HAVE_TORCH
      {"torch", "digest against norm + isfinite + max + projection in libtorch", bench_torch_digest},
#endif
      {"stats", "metrics of one step by number of workers", [] { return stats::run_stats_bench(); }},
      {"exchange", "bytes per rank and step", bench_exchange},
  };
  return all;
}

std::string met(const base::BenchRow& row) {
  if (!row.target) return "";
  const bool good = row.higher_is_better ? row.value >= *row.target : row.value <= *row.target;
  return fmt::format("{} {}{}", row.higher_is_better ? ">=" : "<=", number(*row.target), good ? "" : "  missed");
}

int run_bench(const Output& output, const std::vector<std::string>& only) {
  nlohmann::json results = nlohmann::json::array();
  Table table({"measure", "value", "unit", "target"});
  for (const Suite& suite : suites()) {
    if (!only.empty() && std::find(only.begin(), only.end(), suite.name) == only.end()) continue;
    fmt::print(stderr, "bench: {}: {}\n", suite.name, suite.what);
    const Result<std::vector<base::BenchRow>> rows = suite.run();
    if (!rows) {
      fmt::print(stderr, "lockstep: bench {}: {}\n", suite.name, rows.error().message());
      return kFailure;
    }
    for (const base::BenchRow& row : *rows) {
      table.add({row.name, number(row.value), row.unit, met(row)});
      nlohmann::json entry = {{"name", row.name},
                              {"value", row.value},
                              {"unit", row.unit},
                              {"better", row.higher_is_better ? "higher" : "lower"},
                              {"target", nullptr}};
      if (row.target) entry["target"] = *row.target;
      results.push_back(std::move(entry));
    }
  }
  output.print(table.text());
  return output.write_json({{"version", 1}, {"results", results}}) ? kClean : kFailure;
}

}  // namespace

void add_bench(CLI::App& app, int& exit_code) {
  auto output = std::make_shared<Output>();
  auto only = std::make_shared<std::vector<std::string>>();
  CLI::App* command = app.add_subcommand("bench", "Speed and size, as ratios taken within one run");
  command->footer("Example: lockstep bench --only digest --json -");
  std::vector<std::string> names;
  for (const Suite& suite : suites()) names.emplace_back(suite.name);
  command->add_option("--only", *only, "suites to run (default: all)")->check(CLI::IsMember(names));
  add_json_option(*command, *output);
  command->callback([output, only, &exit_code] { exit_code = run_bench(*output, *only); });
}

}  // namespace lockstep::app
