#include "train_options.h"

#include <map>
#include <memory>

namespace lockstep::app {
namespace {

using train::EngineKind;

template <class T>
CLI::Option* add_choice(CLI::App& command, const char* name, T& out, std::map<std::string, T> choices,
                        const char* text) {
  return command.add_option(name, out, text)->transform(CLI::CheckedTransformer(std::move(choices), CLI::ignore_case));
}

void add_reading(CLI::App& command, TrainCommand& out) {
  const auto group = "Who reads what";
  add_choice(command, "--reading", out.options.reading,
             {{"sharded", train::Reading::kSharded}, {"replicated", train::Reading::kReplicated}},
             "each rank its slice of the order, or all of it: sharded or replicated; default sharded")
      ->group(group);
  command.add_option("--setting", out.setting, "the paper's seeds: s1-1 (all alike), s1-2 (rank 0 apart), s1-3")
      ->capture_default_str()
      ->group(group);
  command.add_option("--seed", out.seed, "base seed of the setting")->capture_default_str()->group(group);
  command.add_option("--seeds", out.options.seeds, "one seed per rank, instead of a setting")
      ->delimiter(',')
      ->excludes("--setting")
      ->excludes("--seed")
      ->group(group);
  command.add_flag("--drop-last", out.options.drop_last, "drop samples that do not divide among the ranks")
      ->group(group);
}

void add_watch(CLI::App& command, TrainCommand& out) {
  const auto group = "Watching";
  train::WatchOptions& watch = out.options.watch;
  command.add_flag("!--no-monitor", watch.enabled, "train without Lockstep's monitor")->group(group);
  command.add_option("--watch-every", watch.monitor.interval, "watch every n-th step")
      ->capture_default_str()
      ->check(CLI::PositiveNumber)
      ->group(group);
  command.add_option("--sketch-every", watch.monitor.sketch_interval, "sketch every n-th watched step")
      ->capture_default_str()
      ->check(CLI::PositiveNumber)
      ->group(group);
  command
      .add_option("--exact-cosine-every", watch.monitor.exact_cosine_interval,
                  "exact mean cosine every n-th step, at the cost of one more reduction; 0: never")
      ->capture_default_str()
      ->group(group);
  command.add_option("--state-every", watch.monitor.state_interval, "hash weights and optimizer every n-th step")
      ->capture_default_str()
      ->group(group);
  command.add_option("--run", out.run_folder, "write the run here, for lockstep report and dashboard")->group(group);
}

void add_results(CLI::App& command, TrainCommand& out) {
  const auto group = "Results";
  train::CheckpointOptions& checkpoint = out.options.checkpoint;
  auto* folder = command.add_option("--checkpoint", checkpoint.folder, "folder for checkpoints; the last two are kept")
                     ->group(group);
  command.add_option("--checkpoint-every", checkpoint.every, "steps; one is always written at the end and on Ctrl-C")
      ->check(CLI::NonNegativeNumber)
      ->needs(folder)
      ->group(group);
  command.add_flag("--resume", checkpoint.resume, "go on from the newest checkpoint there")
      ->needs(folder)
      ->group(group);
  command.add_option("--save", out.options.save_to, "the trained model as a Hugging Face folder")->group(group);
  command.add_option("--json", out.output.json_path, "write the results as JSON (- for standard output)")->group(group);
  command.add_option("--log-every", out.log_every, "steps between lines when standard error is no terminal")
      ->check(CLI::NonNegativeNumber)
      ->group(group);
}

}  // namespace

void add_material_options(CLI::App& command, train::MaterialOptions& out) {
  const auto group = "Model and data";
  command.add_option("--model", out.model, "Hugging Face folder (Llama family); default: the embedded small Llama")
      ->group(group);
  command.add_option("--data", out.data, "Alpaca JSON or JSON Lines; default: the embedded rows")->group(group);
  command.add_option("--cache", out.cache_dir, "folder for what is made on the spot")->group(group);
  add_choice(command, "--template", out.form,
             {{"paper", train::PromptTemplate::kPaper}, {"stanford", train::PromptTemplate::kStanford}},
             "prompt template: paper or stanford; default paper")
      ->group(group);
  command.add_option("--seq", out.seq, "longest sequence in tokens")
      ->capture_default_str()
      ->check(CLI::Range(2, 1 << 20))
      ->group(group);
  command.add_option("--max-rows", out.max_rows, "only the first n rows; 0: all")
      ->check(CLI::NonNegativeNumber)
      ->group(group);
  command.add_option("--eval-rows", out.eval_rows, "rows held out of training and evaluated before and after it")
      ->check(CLI::NonNegativeNumber)
      ->group(group);
}

void add_training_options(CLI::App& command, TrainCommand& out) {
  const auto group = "Training";
  train::TrainOptions& options = out.options;
  const auto positive = CLI::Range(std::int64_t{1}, std::int64_t{1} << 20);
  command.add_option("--micro-batch", options.batch.micro_batch, "sequences per rank and micro-batch")
      ->capture_default_str()
      ->check(positive)
      ->group(group);
  command.add_option("--accumulation", options.batch.accumulation, "micro-batches per step")
      ->capture_default_str()
      ->check(positive)
      ->group(group);
  command.add_option("--epochs", options.epochs)->capture_default_str()->check(positive)->group(group);
  command.add_option("--steps,--max-steps", options.max_steps, "this many steps instead of whole epochs; 0: off")
      ->check(CLI::NonNegativeNumber)
      ->group(group);
  command
      .add_option_function<double>(
          "--lr",
          [&out](double rate) {
            out.options.learning_rate = rate;
            out.learning_rate_given = true;
          },
          "peak learning rate; default 5e-5, for the embedded model 1e-3")
      ->check(CLI::NonNegativeNumber)
      ->group(group);
  add_choice(command, "--schedule", options.schedule,
             {{"linear", train::ScheduleKind::kLinear},
              {"cosine", train::ScheduleKind::kCosine},
              {"constant", train::ScheduleKind::kConstant}},
             "linear, cosine or constant; default linear to 0")
      ->group(group);
  command.add_option("--warmup", options.warmup_steps, "steps of linear warm-up")
      ->check(CLI::NonNegativeNumber)
      ->group(group);
  command.add_option("--weight-decay", options.weight_decay)
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber)
      ->group(group);
  command.add_option("--clip", options.clip, "largest norm of the mean gradient; 0: off")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber)
      ->group(group);
  add_choice(command, "--precision", options.precision,
             {{"fp32", train::Precision::kFp32}, {"bf16", train::Precision::kBf16}},
             "fp32, or bf16 products over fp32 weights; default bf16")
      ->group(group);
  command.add_option("--dropout", options.dropout, "of attention probabilities")
      ->check(CLI::Range(0.0, 0.999))
      ->group(group);
  command.add_option("--dropout-seed", options.dropout_seed, "each rank draws from its own stream of this seed")
      ->group(group);
  command.add_flag("--deterministic", options.deterministic, "the same bits on every run on this machine")
      ->group(group);
  command.add_option("--threads", options.threads, "of each process; default: its share of the cores")
      ->check(CLI::Range(0, 1024))
      ->group(group);
}

void add_train_options(CLI::App& command, TrainCommand& out) {
  add_choice(command, "--engine", out.engine,
             {{"virtual", EngineKind::kVirtual}, {"c10d", EngineKind::kC10d}, {"mpi", EngineKind::kMpi}},
             "virtual: all workers in this process; c10d: one process each, started here or by torchrun; mpi: under "
             "mpirun; default virtual");
  command
      .add_option_function<std::uint32_t>(
          "--workers",
          [&out](std::uint32_t workers) {
            out.workers = workers;
            out.workers_given = true;
          },
          "number of data-parallel workers; default 8, under torchrun and mpirun theirs")
      ->check(CLI::Range(1, 1024));
  add_material_options(command, out.material);
  add_reading(command, out);
  add_training_options(command, out);
  add_watch(command, out);
  add_results(command, out);
}

Status complete(TrainCommand& command) {
  if (!command.learning_rate_given && command.material.model.empty()) {
    command.options.learning_rate = kEmbeddedLearningRate;
  }
  if (!command.options.seeds.empty()) return Status::ok();
  auto setting = train::parse_seed_setting(command.setting);
  if (!setting) return setting.error();
  command.options.seeds = train::rank_seeds(*setting, command.workers, command.seed);
  return Status::ok();
}

}  // namespace lockstep::app
