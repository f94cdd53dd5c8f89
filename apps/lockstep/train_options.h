// The options of `lockstep train`, as the trainer takes them.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "output.h"
#include "train/engine.h"
#include "train/material.h"
#include "train/trainer.h"

namespace lockstep::app {

struct TrainCommand {
  train::EngineKind engine = train::EngineKind::kVirtual;
  std::uint32_t workers = 8;
  bool workers_given = false;
  train::MaterialOptions material;
  train::TrainOptions options;
  bool learning_rate_given = false;
  std::string setting = "s1-1";
  std::uint64_t seed = train::kPaperSeed;
  std::string run_folder;  // where the run store writes; empty: nowhere
  std::int64_t log_every = 0;
  Output output;
};

// A small model learns nothing at the rate of a large one; the paper's is kept for models that people bring.
inline constexpr double kEmbeddedLearningRate = 1e-3;

void add_train_options(CLI::App& command, TrainCommand& out);

// Parts of them, for commands that train in their own way.
void add_material_options(CLI::App& command, train::MaterialOptions& out);
void add_training_options(CLI::App& command, TrainCommand& out);

// After parsing: what follows from several options together (seeds of the setting, rate of the embedded model).
Status complete(TrainCommand& command);

}  // namespace lockstep::app
