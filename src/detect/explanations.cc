#include "detect/explanations.h"

#include <algorithm>

#include "detect/causes.h"

namespace lockstep::detect {
namespace {

enum class Scope { kAnyRank, kSameRank };

struct Row {
  std::string_view root;
  Scope scope;
  std::initializer_list<std::string_view> symptoms;
};

// From the most specific cause down. Statistical detectors assume healthy replicas: once those are gone they measure
// the consequences. Certain symptoms are listed only where the root makes them.
const Row kTable[] = {
    {cause::kNonfinite,
     Scope::kAnyRank,
     {cause::kSyncCorrupted, cause::kDiverged, cause::kOptimizerDiverged, cause::kBuffersDiverged, cause::kRankMismatch,
      cause::kRankOutlier, cause::kDataSkew, cause::kSdcSuspect, cause::kImpossibleNorm, cause::kSyncPartial,
      cause::kSyncMissing, cause::kNondeterministic}},
    {cause::kInitMismatch,
     Scope::kAnyRank,
     {cause::kDiverged, cause::kOptimizerDiverged, cause::kBuffersDiverged, cause::kRankMismatch, cause::kRankOutlier,
      cause::kDataSkew, cause::kSdcSuspect}},
    {cause::kSyncMissing,
     Scope::kAnyRank,
     {cause::kSyncPartial, cause::kSyncCorrupted, cause::kDiverged, cause::kOptimizerDiverged, cause::kImpossibleNorm,
      cause::kRankMismatch, cause::kRankOutlier, cause::kDataSkew, cause::kSdcSuspect, cause::kNondeterministic}},
    {cause::kSyncPartial,
     Scope::kAnyRank,
     {cause::kSyncCorrupted, cause::kDiverged, cause::kOptimizerDiverged, cause::kImpossibleNorm, cause::kRankMismatch,
      cause::kRankOutlier, cause::kDataSkew, cause::kSdcSuspect, cause::kNondeterministic}},
    {cause::kSyncCorrupted,
     Scope::kAnyRank,
     {cause::kDiverged, cause::kOptimizerDiverged, cause::kImpossibleNorm, cause::kRankMismatch, cause::kRankOutlier,
      cause::kDataSkew, cause::kSdcSuspect}},
    {cause::kConfigMismatch, Scope::kSameRank, {cause::kDiverged, cause::kOptimizerDiverged, cause::kBuffersDiverged}},
    {cause::kDiverged,
     Scope::kAnyRank,
     {cause::kOptimizerDiverged, cause::kBuffersDiverged, cause::kRankMismatch, cause::kRankOutlier, cause::kDataSkew}},
    {cause::kOptimizerDiverged, Scope::kSameRank, {cause::kDiverged, cause::kBuffersDiverged}},
    {cause::kNondeterministic, Scope::kAnyRank, {cause::kDiverged, cause::kOptimizerDiverged}},
    {cause::kIdenticalBatches,
     Scope::kAnyRank,
     {cause::kOverlap, cause::kCoverageLoss, cause::kRankOutlier, cause::kRankMismatch, cause::kDataSkew,
      cause::kTokenSkew, cause::kConfigMismatch}},
    {cause::kOverlap, Scope::kAnyRank, {cause::kCoverageLoss}},
    {cause::kOverlap, Scope::kSameRank, {cause::kConfigMismatch}},
    {cause::kEpochReplay, Scope::kAnyRank, {cause::kCoverageLoss}},
    {cause::kTokenSkew, Scope::kSameRank, {cause::kRankMismatch, cause::kRankOutlier, cause::kDataSkew}},
    {cause::kDataSkew, Scope::kSameRank, {cause::kRankMismatch, cause::kRankOutlier}},
    {cause::kRankMismatch, Scope::kAnyRank, {cause::kRankOutlier}},
    {cause::kRankMismatch, Scope::kSameRank, {cause::kSdcSuspect}},
    {cause::kSdcSuspect, Scope::kSameRank, {cause::kRankOutlier}},
};

bool share_a_rank(const Ranks& a, const Ranks& b) {
  return std::any_of(a.begin(), a.end(),
                     [&](std::uint32_t rank) { return std::binary_search(b.begin(), b.end(), rank); });
}

}  // namespace

bool explains(std::string_view root, const Ranks& root_ranks, std::string_view symptom, const Ranks& ranks) {
  for (const Row& row : kTable) {
    if (row.root != root || std::find(row.symptoms.begin(), row.symptoms.end(), symptom) == row.symptoms.end())
      continue;
    if (row.scope == Scope::kAnyRank || share_a_rank(root_ranks, ranks)) return true;
  }
  return false;
}

// Rows are sorted from roots to symptoms; a cause that explains nothing comes last.
std::size_t order_of(std::string_view cause) {
  std::size_t place = 0;
  for (const Row& row : kTable) {
    if (row.root == cause) return place;
    ++place;
  }
  return place;
}

}  // namespace lockstep::detect
