// Checkpoints: folders step-<number> with all that a run needs to go on with the same bits.
//
//   model.safetensors, config.json   weights, loadable as a Hugging Face folder
//   optimizer.safetensors            AdamW's moments and step count
//   rng.safetensors                  each rank's generator, where dropout draws from them
//   state.json                       version, step, position in the data, identity of the run; written last
//
// A folder is written under another name, synced and renamed: one that is there is whole. The last two are kept.
// Only the process of rank 0 writes. Version 1; a reader refuses others by name. Needs no libtorch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/status.h"

namespace lockstep::train {

inline constexpr int kCheckpointVersion = 1;

struct CheckpointState {
  std::int64_t step = 0;  // steps done
  std::int64_t epoch = 0;
  std::int64_t step_in_epoch = 0;
  nlohmann::json identity;
  std::vector<std::vector<std::byte>> random;  // one per rank; empty when nothing draws
};

class CheckpointFolder {
 public:
  // Makes the folder where it is missing, and removes what a killed run left half-written.
  static Result<CheckpointFolder> open(const std::filesystem::path& folder);

  // `write_tensors` fills the given (temporary) folder with weights and optimizer.
  Status write(const CheckpointState& state, const std::function<Status(const std::filesystem::path&)>& write_tensors);

  // Whole checkpoints, newest first.
  std::vector<std::filesystem::path> list() const;

 private:
  explicit CheckpointFolder(std::filesystem::path folder) : folder_(std::move(folder)) {}
  Status write_state(const std::filesystem::path& folder, const CheckpointState& state) const;
  Status publish(const std::filesystem::path& temporary, std::int64_t step) const;
  std::filesystem::path folder_;
};

// The state of one checkpoint folder; every field is checked.
Result<CheckpointState> read_checkpoint_state(const std::filesystem::path& folder);

}  // namespace lockstep::train
