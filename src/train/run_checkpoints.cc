#include "train/run_checkpoints.h"

#include <fmt/format.h>

namespace lockstep::train {

Result<RunCheckpoints> RunCheckpoints::open(const TrainOptions& options, Engine& engine, const RunPlan& plan,
                                            Replica& replica) {
  RunCheckpoints out(options, engine, plan, replica);
  if (options.checkpoint.folder.empty()) {
    if (!options.checkpoint.resume) return out;
    return Status(StatusCode::kInvalidArgument, "resume without a checkpoint folder: name the folder");
  }
  if (!engine.is_root()) return out;
  auto folder = CheckpointFolder::open(options.checkpoint.folder);
  if (!folder) return folder.error();
  out.folder_.emplace(std::move(*folder));
  return out;
}

// The newest that can be read, or none. One of another run is an error: going on from it, or beginning anew beside it,
// would both surprise.
Result<std::filesystem::path> RunCheckpoints::choose(const std::function<void(const std::string&)>& note) const {
  for (const std::filesystem::path& folder : folder_->list()) {
    auto state = read_checkpoint_state(folder);
    if (!state) {
      if (note) note("skipping a checkpoint that cannot be read: " + state.error().message());
      continue;
    }
    const std::string difference = identity_difference(plan_.identity(), state->identity);
    if (difference.empty()) return folder;
    return Status(StatusCode::kInvalidArgument,
                  fmt::format("{} is a checkpoint of another run: {}; use the same options or another folder",
                              folder.string(), difference));
  }
  return std::filesystem::path();
}

Result<std::int64_t> RunCheckpoints::resume(const std::function<void(const std::string&)>& note) {
  std::string chosen;
  Status status;
  if (folder_) {
    auto folder = choose(note);
    if (folder) {
      chosen = folder->string();
    } else {
      status = folder.error();
    }
  }
  if (Status agreed = agree(engine_, status); !agreed) return agreed;
  auto all = engine_.all_gather(std::as_bytes(std::span(chosen)));
  if (!all) return all.error();
  chosen.assign(reinterpret_cast<const char*>((*all)[0].data()), (*all)[0].size());
  if (chosen.empty()) {
    if (note && folder_) note("no checkpoint to resume from: starting at step 0");
    return 0;
  }
  auto step = load(chosen);
  if (Status agreed = agree(engine_, step ? Status::ok() : step.error()); !agreed) return agreed;
  if (note && folder_) note(fmt::format("resumed from {} at step {} of {}", chosen, *step, plan_.total_steps()));
  return step;
}

Result<std::int64_t> RunCheckpoints::load(const std::filesystem::path& folder) {
  auto state = read_checkpoint_state(folder);
  if (!state) return state.error();
  if (plan_.epoch_of(state->step) != state->epoch || plan_.step_in_epoch(state->step) != state->step_in_epoch ||
      state->step > plan_.total_steps()) {
    return Status(StatusCode::kCorrupt, fmt::format("{}: step {} is not at epoch {}, step {} of this run",
                                                    folder.string(), state->step, state->epoch, state->step_in_epoch));
  }
  if (options_.dropout > 0) {
    if (state->random.size() != engine_.world()) {
      return Status(StatusCode::kCorrupt, fmt::format("{}: {} random generators for {} ranks", folder.string(),
                                                      state->random.size(), engine_.world()));
    }
    for (std::uint32_t worker = 0; worker < engine_.local_ranks(); ++worker) {
      const auto& bytes = state->random[engine_.first_rank() + worker];
      if (Status status = replica_.set_random_state(worker, bytes); !status) return status;
    }
  }
  if (Status status = replica_.load(folder); !status) return status;
  return state->step;
}

Result<std::vector<std::vector<std::byte>>> RunCheckpoints::gather_random_states() {
  std::vector<std::byte> own;  // of all workers here, one after the other and of one size
  for (std::uint32_t worker = 0; worker < engine_.local_ranks(); ++worker) {
    const auto bytes = replica_.random_state(worker);
    own.insert(own.end(), bytes.begin(), bytes.end());
  }
  auto all = engine_.all_gather(own);
  if (!all) return all.error();
  const std::size_t bytes = own.size() / engine_.local_ranks();
  std::vector<std::vector<std::byte>> out;
  for (const auto& process : *all) {
    for (std::size_t begin = 0; begin + bytes <= process.size(); begin += bytes) {
      const auto first = process.begin() + static_cast<std::ptrdiff_t>(begin);
      out.emplace_back(first, first + static_cast<std::ptrdiff_t>(bytes));
    }
  }
  return out;
}

Status RunCheckpoints::write(std::int64_t steps_done) {
  if (options_.checkpoint.folder.empty()) return Status::ok();
  CheckpointState state;
  state.step = steps_done;
  state.epoch = plan_.epoch_of(steps_done);
  state.step_in_epoch = plan_.step_in_epoch(steps_done);
  state.identity = plan_.identity();
  if (options_.dropout > 0) {
    auto random = gather_random_states();
    if (!random) return random.error();
    state.random = std::move(*random);
  }
  Status status;
  if (folder_) {
    status = folder_->write(state, [&](const std::filesystem::path& folder) { return replica_.save(folder); });
  }
  return agree(engine_, status);
}

}  // namespace lockstep::train
