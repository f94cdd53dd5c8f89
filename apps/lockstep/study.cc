// lockstep study: the paper's settings S1 and S2 again, with several seeds, error bars and exact expectations.
#include "train/study.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <ctime>
#include <map>
#include <mutex>
#include <thread>

#include "commands.h"
#include "output.h"
#include "progress.h"
#include "recorder.h"
#include "report/html.h"
#include "store/run_reader.h"
#include "study_tables.h"
#include "train/study_analysis.h"
#include "train/study_conclusion.h"
#include "train/study_files.h"
#include "train/study_json.h"
#include "train_options.h"

namespace lockstep::app {
namespace {

using train::Reading;

std::atomic<bool> stop_asked{false};

struct StudyCommand {
  train::StudyOptions study;
  TrainCommand train;  // model, data and hyperparameters, with the options of `lockstep train`
  std::string reading = "both";
  std::string out;
  std::uint32_t jobs = 0;
};

// The embedded data set without these rows is 60 steps of 8 x 2 x 4 exactly, so that one epoch reads all of it.
constexpr std::int64_t kEmbeddedEvalRows = 160;

// One line on a terminal, nothing elsewhere.
class StudyLine {
 public:
  void show(const train::StudyProgress& progress) {
    const auto now = Clock::now();
    if (!terminal_ || now - drawn_ < std::chrono::milliseconds(100)) return;
    drawn_ = now;
    const double passed = std::chrono::duration<double>(now - begin_).count();
    const double left = progress.share > 0 ? passed * (1 / progress.share - 1) : 0;
    fmt::print(stderr, "\r\x1b[K{:3.0f} %  run {} of {}  {}  loss {:.3f}  {} left", 100 * progress.share,
               std::min(progress.runs_done + 1, progress.runs), progress.runs, progress.run, progress.loss,
               clock_text(left));
    std::fflush(stderr);
  }
  void clear() const {
    if (terminal_) fmt::print(stderr, "\r\x1b[K");
  }

 private:
  using Clock = std::chrono::steady_clock;
  bool terminal_ = Progress::is_terminal();
  Clock::time_point begin_ = Clock::now(), drawn_{};
};

// What is attached to every run: its store, in the run's folder, and the diagnosis.
class Recorders {
 public:
  explicit Recorders(const train::StudyFiles& files) : files_(files) {}

  std::vector<std::shared_ptr<Observer>> open(const train::StudyRunInfo& info, const RecordLayout& layout) {
    store::RunInfo run;
    run.name = info.name();
    run.world = info.workers;
    run.layout = layout;
    run.command = fmt::format("lockstep study ({})", info.arm.text());
    auto recorder = Recorder::open(files_.run_folder(info), run);
    const std::lock_guard lock(mutex_);
    if (!recorder) {
      if (problem_.is_ok()) problem_ = recorder.error();
      return {};
    }
    open_[info.name()] = *recorder;
    return {*recorder};
  }

  Status close(const train::StudyRun& run) {
    std::shared_ptr<Recorder> recorder;
    {
      const std::lock_guard lock(mutex_);
      if (!problem_.is_ok()) return problem_;
      recorder = std::move(open_[run.info.name()]);
    }
    if (!recorder) return Status::ok();
    recorder->writer().put_health(0, run.monitor);
    diagnoses_.push_back({run.info.arm.label(), recorder->findings()});
    return recorder->close();
  }

  // The whole study beside the runs of the first seed, so that the report of one shows all settings.
  Status add_study(const train::StudyOutcome& outcome, const std::string& document) const {
    for (const train::StudyRun& run : outcome.runs) {
      if (run.info.base_seed != outcome.base_seeds.front()) continue;
      auto writer = store::RunWriter::open(files_.run_folder(run.info));
      if (!writer) return writer.error();
      (*writer)->put_document(store::kStudyDocument, document);
      if (Status status = (*writer)->close(std::chrono::seconds(30)); !status) return status;
    }
    return Status::ok();
  }

  const std::vector<RunDiagnosis>& diagnoses() const { return diagnoses_; }

 private:
  const train::StudyFiles& files_;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Recorder>> open_;
  std::vector<RunDiagnosis> diagnoses_;
  Status problem_;
};

std::string setup_text(const train::StudyOutcome& outcome, const train::Material& material) {
  const train::TrainOptions& train = outcome.options.train;
  return fmt::format(
      "{} workers, {} steps of {} x {} x {} sequences ({:.2g} epochs), lr {:g}, {} parameters ({}), {} rows ({}),\n"
      "base seeds {}, {} runs in {}\n\n",
      outcome.options.workers, outcome.options.steps, outcome.options.workers, train.batch.micro_batch,
      train.batch.accumulation,
      static_cast<double>(outcome.options.steps) / static_cast<double>(outcome.steps_per_epoch), train.learning_rate,
      material.parameters, material.model_name, outcome.options.samples, material.data_name,
      fmt::join(outcome.base_seeds, ", "), outcome.runs.size(), clock_text(outcome.seconds));
}

// Everything that depends on several options together.
Status complete(StudyCommand& command) {
  if (command.train.material.model.empty() && command.train.material.data.empty() &&
      command.train.material.eval_rows == 0 && command.train.material.max_rows == 0) {
    command.train.material.eval_rows = kEmbeddedEvalRows;
  }
  if (Status status = complete(command.train); !status) return status;
  train::StudyOptions& study = command.study;
  study.readings = {Reading::kSharded, Reading::kReplicated};
  if (command.reading != "both") study.readings = {train::parse_reading(command.reading).value()};
  study.workers = command.train.workers;
  study.train = command.train.options;
  study.steps = command.train.options.max_steps;
  // Small models leave most of a core idle between their operations: several runs at once, a core each, are faster
  // than several cores for one run. A model that people bring may fill the memory by itself.
  const bool embedded = command.train.material.model.empty();
  study.jobs = command.jobs != 0 ? command.jobs : embedded ? std::max(1U, std::thread::hardware_concurrency()) : 1;
  if (study.train.threads == 0 && study.jobs > 1) {
    study.train.threads = std::max(1U, std::thread::hardware_concurrency() / study.jobs);
  }
  return Status::ok();
}

void listen_for_signals() {
  struct sigaction action {};
  action.sa_handler = [](int) { stop_asked.store(true); };
  action.sa_flags = SA_RESETHAND | SA_RESTART;
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
}

// The page of one run of the first seed; it shows all settings, because the study is stored beside it. The last arm is
// the one with the most to see.
Status write_study_report(const train::StudyOutcome& outcome, const train::StudyFiles& files, const std::string& file) {
  for (auto run = outcome.runs.rbegin(); run != outcome.runs.rend(); ++run) {
    if (run->info.base_seed != outcome.base_seeds.front()) continue;
    auto reader = store::RunReader::open(files.run_folder(run->info));
    if (!reader) return reader.error();
    return report::write_report(*reader, file);
  }
  return {StatusCode::kUnavailable, "no run of the first seed ended, so there is no report"};
}

// Prints and writes what was measured.
int publish(const StudyCommand& command, const train::StudyOutcome& outcome, const train::Material& material,
            train::StudyFiles& files, const Recorders& recorders) {
  const train::StudyAnalysis analysis = train::analyse_study(outcome);
  const std::vector<std::string> conclusion = train::conclude(outcome, analysis);
  const std::string created = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
  const nlohmann::json document = train::study_json(
      outcome, analysis, conclusion, {created, material.model_name, material.data_name, material.parameters});
  int code = kClean;
  if (Status status = files.finish(document.dump(2) + "\n"); !status) code = fail(status);
  if (Status status = recorders.add_study(outcome, document["study"].dump()); !status) code = fail(status);

  const Output& output = command.train.output;
  output.print(setup_text(outcome, material));
  output.print(setting_tables(outcome, analysis) + "\n" + comparison_tables(outcome, analysis) + "\n");
  output.print(oracle_table(analysis) + "\n" + diagnosis_table(outcome, recorders.diagnoses()) + "\n");
  for (const std::string& paragraph : conclusion) output.print(wrapped(paragraph, 110) + "\n");
  output.print(fmt::format("Written to {0}: summary.json, steps.csv and the runs (lockstep diagnose {0}/{1}).\n",
                           command.out, outcome.arms.front().label()));
  if (Status status = write_study_report(outcome, files, command.out + "/report.html"); !status) {
    code = fail(status);
  } else {
    output.print(fmt::format("Report: {}/report.html\n", command.out));
  }
  if (!output.write_json(document)) code = kFailure;
  return code;
}

int run(StudyCommand command) {
  if (Status status = complete(command); !status) return fail(status);
  listen_for_signals();
  auto material = train::load_material(command.train.material);
  if (!material) return fail(material.error());
  command.study.samples = static_cast<std::int64_t>(material->data.examples.size());
  auto files = train::StudyFiles::create(command.out);
  if (!files) return fail(files.error());

  Recorders recorders(*files);
  StudyLine line;
  train::StudyHooks hooks;
  hooks.stop = &stop_asked;
  hooks.progress = [&](const train::StudyProgress& progress) { line.show(progress); };
  hooks.observers = [&](const train::StudyRunInfo& info) {
    return recorders.open(info, command.study.train.watch.monitor.layout);
  };
  hooks.finished = [&](const train::StudyRun& run) {
    if (Status status = recorders.close(run); !status) return status;
    return files->add(run);
  };
  const auto trainer = [&](const train::TrainOptions& options,
                           const train::TrainHooks& train_hooks) -> Result<train::TrainResult> {
    auto engine = train::make_virtual_engine(command.study.workers);
    if (!engine) return engine.error();
    return train::train(*material, options, **engine, train_hooks);
  };
  auto outcome = train::run_study(command.study, trainer, hooks);
  line.clear();
  if (!outcome) return fail(outcome.error());
  int code = publish(command, *outcome, *material, *files, recorders);
  if (!outcome->error.is_ok()) code = fail(outcome->error);
  return code;
}

void add_kind(CLI::App& study, int& exit_code, train::StudyKind kind, const char* text, const char* example) {
  auto command = std::make_shared<StudyCommand>();
  const std::string name = train::to_string(kind);
  command->study.kind = kind;
  command->out = "runs/study-" + name;
  CLI::App* sub = study.add_subcommand(name, text);
  sub->footer(example);
  sub->add_option("--workers", command->train.workers, "data-parallel workers, all in this process")
      ->capture_default_str()
      ->check(CLI::Range(2, 1024));
  sub->add_option("--seeds", command->study.seeds, "base seeds: 42 and the next; every setting is trained with each")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000));
  sub->add_option("--reading", command->reading, "sharded, replicated or both")
      ->capture_default_str()
      ->check(CLI::IsMember({"sharded", "replicated", "both"}));
  sub->add_option("--exact-cosine-every", command->study.exact_cosine_interval,
                  "exact mean cosine every n-th step; 0: from sketches only")
      ->capture_default_str();
  sub->add_option("--jobs", command->jobs, "runs at the same time; default: one per core for the embedded model");
  sub->add_option("--out", command->out, "folder of the results; those of an earlier study there are replaced")
      ->capture_default_str();
  add_json_option(*sub, command->train.output);
  add_material_options(*sub, command->train.material);
  add_training_options(*sub, command->train);
  sub->callback([command, &exit_code] { exit_code = run(*command); });
}

}  // namespace

void add_study(CLI::App& app, int& exit_code) {
  CLI::App* study = app.add_subcommand("study", "Re-run the paper's settings with seeds, error bars and expectations");
  study->require_subcommand(1);
  add_kind(*study, exit_code, train::StudyKind::kS1, "Seeds of the data order: S1-1, S1-2, S1-3 in both readings",
           "Examples:\n"
           "  lockstep study s1\n"
           "  lockstep study s1 --model DIR --data alpaca.json --seq 1024 --seeds 3 --steps 200 --out runs/real");
  add_kind(*study, exit_code, train::StudyKind::kS2, "Arithmetic: S2-1 in fp32 against S2-2 in bf16",
           "Example: lockstep study s2 --seeds 3");
}

}  // namespace lockstep::app
