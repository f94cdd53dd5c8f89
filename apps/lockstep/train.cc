// lockstep train: synchronous data-parallel fine-tuning with Lockstep attached, in one process or in many.
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <optional>

#include "commands.h"
#include "progress.h"
#include "recorder.h"
#include "train/job_store.h"
#include "train/launcher.h"
#include "train_options.h"

namespace lockstep::app {
namespace {

std::atomic<bool> stop_asked{false};

// The first signal ends the run after its step; the second one ends the process as it would any other.
void ask_to_stop(int) {
  stop_asked.store(true);
}

void listen_for_signals() {
  struct sigaction action {};
  action.sa_handler = ask_to_stop;
  action.sa_flags = SA_RESETHAND | SA_RESTART;
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
}

int exit_code_of(const Status& status) {
  return status.code() == StatusCode::kInvalidArgument ? kUsage : kFailure;
}

int fail(const Status& status, const train::Engine* engine = nullptr) {
  // A rank that merely lost a peer has nothing to add to what that peer, or the launcher, says.
  if (engine != nullptr && !engine->is_root() && status.code() == StatusCode::kUnavailable) return kFailure;
  fmt::print(stderr, "lockstep train: {}\n", status.message());
  return exit_code_of(status);
}

// Averages over steps of what rank 0's monitor saw, for the lines at the end.
struct Averages : Observer {
  struct Mean {
    double sum = 0;
    std::int64_t count = 0;
    void add(const Metric& metric) {
      if (!metric) return;
      sum += *metric;
      ++count;
    }
    nlohmann::json json() const { return count > 0 ? nlohmann::json(sum / static_cast<double>(count)) : nullptr; }
    std::string text() const { return count > 0 ? number(sum / static_cast<double>(count)) : "no verdict"; }
  };
  void on_step(const Step&, const StepStats& stats) override {
    const std::lock_guard lock(mutex);
    loss_std.add(stats.loss_std);
    loss_range.add(stats.loss_range);
    norm_mean.add(stats.norm_mean);
    norm_std.add(stats.norm_std);
    norm_cv.add(stats.norm_cv);
    cosine.add(stats.cosine_mean);
    pooled.add(stats.cosine_pooled);
    noise_ratio = stats.noise_ratio_smooth;
  }
  nlohmann::json json() {
    const std::lock_guard lock(mutex);
    return {{"loss_std", loss_std.json()},    {"loss_range", loss_range.json()},
            {"norm_mean", norm_mean.json()},  {"norm_std", norm_std.json()},
            {"norm_cv", norm_cv.json()},      {"cosine_mean", cosine.json()},
            {"cosine_pooled", pooled.json()}, {"noise_ratio", noise_ratio ? nlohmann::json(*noise_ratio) : nullptr}};
  }
  std::mutex mutex;
  Mean loss_std, loss_range, norm_mean, norm_std, norm_cv, cosine, pooled;
  Metric noise_ratio;
};

// ---- parts of a run ------------------------------------------------------------------------------------------------

Result<std::unique_ptr<train::Engine>> make_engine(TrainCommand& command) {
  Result<std::unique_ptr<train::Engine>> engine = [&] {
    switch (command.engine) {
      case train::EngineKind::kC10d:
        return train::make_c10d_engine();
      case train::EngineKind::kMpi:
        return train::make_mpi_engine();
      case train::EngineKind::kVirtual:
        break;
    }
    return train::make_virtual_engine(command.workers);
  }();
  if (!engine) return engine;
  if (command.workers_given && (*engine)->world() != command.workers) {
    return Status(StatusCode::kInvalidArgument,
                  fmt::format("--workers {}, but the job was started with {} processes: leave the option out",
                              command.workers, (*engine)->world()));
  }
  command.workers = (*engine)->world();
  return engine;
}

// Rank 0 first: it may have to make the embedded model, which the others then find in the cache.
Result<train::Material> load_material(const TrainCommand& command, train::Engine& engine) {
  std::optional<Result<train::Material>> material;
  for (const bool root : {true, false}) {
    if (root == engine.is_root()) material.emplace(train::load_material(command.material));
    const Status own = material && !*material ? material->error() : Status::ok();
    if (Status status = train::agree(engine, own); !status) return status;
  }
  return std::move(*material);
}

std::string command_line() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::string text((std::istreambuf_iterator<char>(file)), {});
  std::replace(text.begin(), text.end(), '\0', ' ');
  return text.substr(0, text.find_last_not_of(' ') + 1);
}

// What watches the run beside the summary: run store and diagnosis, where a run is asked for.
Result<std::shared_ptr<Recorder>> open_run(const TrainCommand& command, const train::Engine& engine) {
  if (command.run_folder.empty() || !engine.is_root()) return std::shared_ptr<Recorder>();
  if (!command.options.watch.enabled) {
    return Status(StatusCode::kInvalidArgument, "--run needs the monitor: leave out --no-monitor");
  }
  store::RunInfo info;
  info.world = engine.world();
  info.layout = command.options.watch.monitor.layout;
  info.command = command_line();
  return Recorder::open(command.run_folder, info, command.options.checkpoint.resume);
}

nlohmann::json to_json(const TrainCommand& command, const train::Material& material, const train::TrainResult& result,
                       Averages& averages) {
  nlohmann::json steps = nlohmann::json::array();
  for (const train::StepResult& step : result.steps) {
    steps.push_back({{"step", step.step},
                     {"loss", step.loss},
                     {"rank_loss", step.rank_loss},
                     {"gradient_norm", step.gradient_norm},
                     {"learning_rate", step.learning_rate},
                     {"tokens", step.tokens},
                     {"response_tokens", step.response_tokens},
                     {"seconds", step.seconds}});
  }
  const auto optional = [](const std::optional<double>& value) {
    return value ? nlohmann::json(*value) : nlohmann::json();
  };
  return {{"version", 1},
          {"engine", train::to_string(command.engine)},
          {"workers", command.workers},
          {"model", material.model_name},
          {"parameters", material.parameters},
          {"data", material.data_name},
          {"samples", material.data.examples.size()},
          {"reading", train::to_string(command.options.reading)},
          {"seeds", command.options.seeds},
          {"total_steps", result.total_steps},
          {"first_step", result.first_step},
          {"stopped", result.stopped},
          {"final_loss", result.final_loss},
          {"eval_loss_start", optional(result.eval_loss_start)},
          {"eval_loss", optional(result.eval_loss)},
          {"tokens", result.tokens},
          {"seconds", result.seconds},
          {"tokens_per_second", result.tokens_per_second()},
          {"coverage", result.coverage.coverage},
          {"overlap", result.coverage.overlap},
          {"pair_overlap", result.coverage.pair_overlap},
          {"weights_hash", fmt::format("{:016x}", result.weights_hash)},
          {"metrics", command.options.watch.enabled ? averages.json() : nlohmann::json()},
          {"steps", std::move(steps)}};
}

std::string summary(const TrainCommand& command, const train::TrainResult& result, const Averages& averages) {
  const auto last = result.first_step + static_cast<std::int64_t>(result.steps.size());
  std::string out =
      fmt::format("{} {} of {} steps", result.stopped ? "stopped after" : "trained", last, result.total_steps);
  if (!result.steps.empty()) {
    out += fmt::format(": loss {:.4f} -> {:.4f}, {:.0f} tokens/s, {}", result.steps.front().loss, result.final_loss,
                       result.tokens_per_second(), clock_text(result.seconds));
  }
  out += "\n";
  if (result.eval_loss && result.eval_loss_start) {
    out += fmt::format("held-out loss   {:.4f} -> {:.4f}\n", *result.eval_loss_start, *result.eval_loss);
  }
  out += fmt::format("data            {:.1f} % of the samples read, {:.1f} % of these by several workers\n",
                     100 * result.coverage.coverage, 100 * result.coverage.overlap);
  if (!command.options.watch.enabled) return out;
  out += fmt::format(
      "workers, mean over steps\n  loss            std {}, range {}\n  gradient norm   std/mean {}\n"
      "  direction       mean pairwise cosine {}, pooled {}\n",
      averages.loss_std.text(), averages.loss_range.text(), averages.norm_cv.text(), averages.cosine.text(),
      averages.pooled.text());
  const Health& health = result.monitor;
  if (!health.enabled) out += fmt::format("the monitor was disabled: {}\n", health.reason.message());
  if (health.drops_queue + health.missing_records > 0) {
    out += fmt::format("the monitor missed {} records: {}\n", health.drops_queue + health.missing_records,
                       health.last_problem);
  }
  return out;
}

// ---- the two ways to run -------------------------------------------------------------------------------------------

bool started_by_torchrun() {
  return std::getenv("RANK") != nullptr || std::getenv("WORLD_SIZE") != nullptr;
}

// One process per worker, started here. What can be checked before is checked once, and not by every worker.
int launch(const TrainCommand& command) {
  {
    auto material = train::load_material(command.material);
    if (!material) return fail(material.error());
    auto steps = train::planned_steps(*material, command.options, command.workers);
    if (!steps) return fail(steps.error());
  }
  auto job_store = train::JobStore::serve();
  if (!job_store) return fail(job_store.error());
  train::LaunchOptions options;
  options.workers = command.workers;
  options.store_port = job_store->port();
  options.threads = command.options.threads;
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  for (std::string argument; std::getline(file, argument, '\0');) options.arguments.push_back(argument);
  Status status = train::launch_workers(options);
  return status ? kClean : fail(status);
}

int run_train(TrainCommand command) {
  if (command.engine == train::EngineKind::kC10d && !started_by_torchrun()) {
    if (Status status = complete(command); !status) return fail(status);
    return launch(command);
  }
  listen_for_signals();
  auto engine = make_engine(command);
  if (!engine) return fail(engine.error());
  if (Status status = complete(command); !status) return fail(status);
  auto material = load_material(command, **engine);
  if (!material) return fail(material.error(), engine->get());
  auto run = open_run(command, **engine);
  if (Status status = train::agree(**engine, run ? Status::ok() : run.error()); !status) {
    return fail(status, engine->get());
  }

  Progress progress(Progress::is_terminal(), command.log_every);
  auto averages = std::make_shared<Averages>();
  train::TrainHooks hooks;
  hooks.stop = &stop_asked;
  hooks.observers.push_back(averages);
  if (*run) hooks.observers.push_back(*run);
  hooks.note = [&](const std::string& text) { progress.note(text); };
  hooks.after_step = [&](const train::StepResult& step, std::int64_t total) {
    progress.step(step.step + 1, total, step.loss, step.tokens);
  };
  if ((*engine)->is_root()) {
    progress.note(fmt::format("{} parameters ({}), {} rows ({}), {} workers ({})", material->parameters,
                              material->model_name, material->data.examples.size(), material->data_name,
                              command.workers, train::to_string(command.engine)));
  }
  auto result = train::train(*material, command.options, **engine, hooks);
  progress.finish();
  if (!result) return fail(result.error(), engine->get());
  int code = kClean;
  if ((*engine)->is_root()) {
    if (*run) {
      (*run)->writer().put_health(0, result->monitor);
      if (Status status = (*run)->close(); !status) code = fail(status);
    }
    command.output.print(summary(command, *result, *averages));
    if (*run) {
      const std::vector<Finding> findings = (*run)->findings();
      for (const Finding& finding : findings) {
        command.output.print(fmt::format("{} (step {}): {}\n", finding.cause, finding.first_step, finding.message));
      }
      if (!findings.empty() && code == kClean) code = kFindings;
    }
    if (!command.output.write_json(to_json(command, *material, *result, *averages))) code = kFailure;
  }
  if (Status status = (*engine)->close(); !status) return fail(status, engine->get());
  return code;
}

}  // namespace

void add_train(CLI::App& app, int& exit_code) {
  auto command = std::make_shared<TrainCommand>();
  CLI::App* sub = app.add_subcommand("train", "Fine-tune a Llama-family model with Lockstep watching every worker");
  sub->footer(
      "Examples:\n"
      "  lockstep train                                      8 workers in one process, embedded model and data\n"
      "  lockstep train --engine c10d --workers 4            one process per worker on this machine\n"
      "  lockstep train --model DIR --data alpaca.json --eval-rows 64 --checkpoint DIR2 --checkpoint-every 50");
  add_train_options(*sub, *command);
  sub->callback([command, &exit_code] { exit_code = run_train(*command); });
}

}  // namespace lockstep::app
