// The stable names of causes. New ones may come; none is renamed. docs/findings.md explains each.
#pragma once

namespace lockstep::detect::cause {

inline constexpr const char* kIdenticalBatches = "data.identical_batches";
inline constexpr const char* kOverlap = "data.overlap";
inline constexpr const char* kCoverageLoss = "data.coverage_loss";
inline constexpr const char* kEpochReplay = "data.epoch_replay";
inline constexpr const char* kDataSkew = "data.skew";
inline constexpr const char* kSyncMissing = "sync.missing";
inline constexpr const char* kSyncPartial = "sync.partial";
inline constexpr const char* kSyncCorrupted = "sync.corrupted";
inline constexpr const char* kInitMismatch = "replica.init_mismatch";
inline constexpr const char* kDiverged = "replica.diverged";
inline constexpr const char* kBuffersDiverged = "replica.buffers_diverged";
inline constexpr const char* kOptimizerDiverged = "replica.optimizer_diverged";
inline constexpr const char* kRankMismatch = "scale.rank_mismatch";
inline constexpr const char* kTokenSkew = "scale.token_skew";
inline constexpr const char* kImpossibleNorm = "scale.impossible_norm";
inline constexpr const char* kRngShared = "rng.shared";
inline constexpr const char* kRngDiverged = "rng.diverged";
inline constexpr const char* kConfigMismatch = "config.mismatch";
inline constexpr const char* kNonfinite = "value.nonfinite";
inline constexpr const char* kRankOutlier = "rank.outlier";
inline constexpr const char* kSdcSuspect = "hardware.sdc_suspect";
inline constexpr const char* kNondeterministic = "order.nondeterministic";

}  // namespace lockstep::detect::cause
