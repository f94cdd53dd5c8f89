// A run as TensorBoard event files: `tensorboard --logdir FOLDER` shows it.
//
// One TensorBoard run for the steps, one per rank, so that the ranks' curves lie over each other under one tag.
// Findings are texts of the first. A metric without a verdict has no point at that step.
#pragma once

#include <cstdint>
#include <filesystem>

#include "lockstep/status.h"
#include "store/run_reader.h"

namespace lockstep::exports {

inline constexpr std::uint32_t kMaxTensorboardRanks = 64;

// Makes FOLDER/steps and FOLDER/rank_0 .. ; of larger worlds the first `max_ranks`. An older export is replaced.
Status export_tensorboard(store::RunReader& reader, const std::filesystem::path& folder,
                          std::uint32_t max_ranks = kMaxTensorboardRanks);

}  // namespace lockstep::exports
