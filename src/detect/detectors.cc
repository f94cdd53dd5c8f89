#include "detect/detectors.h"

#include "detect/coverage_loss.h"
#include "detect/data_skew.h"
#include "detect/epoch_replay.h"
#include "detect/identical_batches.h"
#include "detect/impossible_norm.h"
#include "detect/nonfinite.h"
#include "detect/overlap.h"
#include "detect/rank_outlier.h"
#include "detect/rank_scale.h"
#include "detect/recompute.h"
#include "detect/reduction.h"
#include "detect/replica_state.h"
#include "detect/rng_streams.h"
#include "detect/sdc_suspect.h"
#include "detect/token_skew.h"

namespace lockstep::detect {
namespace {

template <class D>
std::unique_ptr<Detector> make() {
  return std::make_unique<D>();
}

using Make = std::unique_ptr<Detector> (*)();
constexpr Make kDetectors[] = {
    make<Nonfinite>,        make<ReplicaState>, make<RngStreams>,   make<Reduction>,   make<ImpossibleNorm>,
    make<IdenticalBatches>, make<Overlap>,      make<CoverageLoss>, make<EpochReplay>, make<TokenSkew>,
    make<DataSkew>,         make<RankScale>,    make<RankOutlier>,  make<SdcSuspect>,  make<Recompute>,
};

}  // namespace

std::vector<std::unique_ptr<Detector>> make_detectors() {
  std::vector<std::unique_ptr<Detector>> detectors;
  for (const Make make_one : kDetectors) detectors.push_back(make_one());
  return detectors;
}

}  // namespace lockstep::detect
