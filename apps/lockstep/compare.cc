// lockstep compare: two runs side by side, with significance.
//
// Steps of one training follow each other on the same weights and are not independent, so each run is cut into blocks
// of consecutive steps and the blocks' means are compared (Welch's t-test). Blocks longer than the memory of the
// training are near enough to independent; two runs are still only two runs, and the text under the table says so.
#include <fmt/format.h>

#include <cmath>

#include "commands.h"
#include "output.h"
#include "store/run_reader.h"
#include "train/student_t.h"

namespace lockstep::app {
namespace {

constexpr std::size_t kBlocks = 20;
constexpr std::size_t kFewestBlocks = 4;

struct CompareOptions {
  std::string a, b;
  Output output;
};

struct Sample {
  std::size_t steps = 0;
  std::vector<double> blocks;  // means of consecutive steps
  double mean = NAN, variance_of_mean = NAN;
};

Sample summarise(const std::vector<double>& values) {
  Sample sample;
  sample.steps = values.size();
  const std::size_t blocks = std::min(kBlocks, values.size());
  for (std::size_t i = 0; i < blocks; ++i) {
    const std::size_t begin = i * values.size() / blocks, end = (i + 1) * values.size() / blocks;
    double sum = 0;
    for (std::size_t j = begin; j < end; ++j) sum += values[j];
    sample.blocks.push_back(sum / static_cast<double>(end - begin));
  }
  if (blocks == 0) return sample;
  sample.mean = 0;
  for (double block : sample.blocks) sample.mean += block / static_cast<double>(blocks);
  if (blocks < 2) return sample;
  double squares = 0;
  for (double block : sample.blocks) squares += (block - sample.mean) * (block - sample.mean);
  sample.variance_of_mean = squares / static_cast<double>(blocks - 1) / static_cast<double>(blocks);
  return sample;
}

// Two-sided; NaN where there are too few blocks or nothing varies.
double welch_p(const Sample& a, const Sample& b) {
  if (a.blocks.size() < kFewestBlocks || b.blocks.size() < kFewestBlocks) return NAN;
  const double variance = a.variance_of_mean + b.variance_of_mean;
  if (!(variance > 0)) return NAN;
  const auto part = [](const Sample& sample) {
    return sample.variance_of_mean * sample.variance_of_mean / static_cast<double>(sample.blocks.size() - 1);
  };
  return train::student_t_two_sided((b.mean - a.mean) / std::sqrt(variance), variance * variance / (part(a) + part(b)));
}

using Columns = std::vector<std::vector<double>>;  // by metric

Result<Columns> read_columns(const std::string& folder) {
  Result<store::RunReader> reader = store::RunReader::open(folder);
  if (!reader) return reader.error();
  Columns columns(store::kStepMetrics.size());
  const Status status = reader->for_each_step({}, store::RunReader::Ranks::kNone, [&](const store::StoredStep& step) {
    for (std::size_t i = 0; i < columns.size(); ++i) {
      if (const Metric& value = step.stats.*store::kStepMetrics[i].member) columns[i].push_back(*value);
    }
    return true;
  });
  if (!status) return status;
  return columns;
}

nlohmann::json or_null(double value) {
  return std::isfinite(value) ? nlohmann::json(value) : nlohmann::json();
}

int run_compare(const CompareOptions& options) {
  Result<Columns> a = read_columns(options.a), b = read_columns(options.b);
  if (!a) return fail(a.error());
  if (!b) return fail(b.error());
  Table table({"metric", "A", "B", "B - A", "p"});
  nlohmann::json json = {{"version", 1}, {"a", options.a}, {"b", options.b}, {"metrics", nlohmann::json::array()}};
  for (std::size_t i = 0; i < store::kStepMetrics.size(); ++i) {
    const Sample first = summarise((*a)[i]), second = summarise((*b)[i]);
    if (first.steps == 0 && second.steps == 0) continue;
    const double p = welch_p(first, second);
    const std::string name(store::kStepMetrics[i].name);
    table.add({name, number(first.mean), number(second.mean), number(second.mean - first.mean), number(p, 2)});
    json["metrics"].push_back({{"metric", name},
                               {"a", or_null(first.mean)},
                               {"b", or_null(second.mean)},
                               {"difference", or_null(second.mean - first.mean)},
                               {"p_value", or_null(p)},
                               {"steps_a", first.steps},
                               {"steps_b", second.steps}});
  }
  options.output.print(fmt::format("A: {}\nB: {}\n\n{}", options.a, options.b, table.text()));
  options.output.print(
      fmt::format("\nMeans over steps. p: Welch's test on the means of {} blocks of consecutive steps; it "
                  "tells whether these two\nruns differ, not whether their settings do: for that, several "
                  "seeds each (lockstep study).\n",
                  kBlocks));
  return options.output.write_json(json) ? kClean : kFailure;
}

}  // namespace

void add_compare(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<CompareOptions>();
  CLI::App* command = app.add_subcommand("compare", "Two runs side by side, with significance");
  command->footer("Example: lockstep compare runs/before runs/after");
  command->add_option("A", options->a, "folder that holds run.sqlite")->required();
  command->add_option("B", options->b, "folder that holds run.sqlite")->required();
  add_json_option(*command, options->output);
  command->callback([options, &exit_code] { exit_code = run_compare(*options); });
}

}  // namespace lockstep::app
