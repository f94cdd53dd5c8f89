// A run's dealings with its checkpoints: writing them together, finding the one to go on from, refusing others' ones.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "lockstep/status.h"
#include "train/checkpoint.h"
#include "train/engine.h"
#include "train/replica.h"
#include "train/run_plan.h"
#include "train/trainer.h"

namespace lockstep::train {

// Holds references to the run's parts, which must outlive it. resume() and write() are collective.
class RunCheckpoints {
 public:
  // Without a checkpoint folder in the options it does nothing.
  static Result<RunCheckpoints> open(const TrainOptions& options, Engine& engine, const RunPlan& plan,
                                     Replica& replica);

  // Brings the replica to the newest checkpoint and gives the number of steps done; 0 when there is none. The folder
  // must be visible to every process. `note`, where rank 0 lives, hears what was chosen.
  Result<std::int64_t> resume(const std::function<void(const std::string&)>& note);
  Status write(std::int64_t steps_done);

 private:
  RunCheckpoints(const TrainOptions& options, Engine& engine, const RunPlan& plan, Replica& replica)
      : options_(options), engine_(engine), plan_(plan), replica_(replica) {}
  Result<std::filesystem::path> choose(const std::function<void(const std::string&)>& note) const;
  Result<std::int64_t> load(const std::filesystem::path& folder);
  Result<std::vector<std::vector<std::byte>>> gather_random_states();

  const TrainOptions& options_;
  Engine& engine_;
  const RunPlan& plan_;
  Replica& replica_;
  std::optional<CheckpointFolder> folder_;  // where rank 0 lives
};

}  // namespace lockstep::train
