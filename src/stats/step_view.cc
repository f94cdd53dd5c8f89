#include "stats/step_view.h"

#include <algorithm>
#include <cmath>

namespace lockstep::stats {
namespace {

GradientView view_of(const GradientRecord& record) {
  GradientView view;
  if (!record.observed || record.count <= record.nonfinite) return view;
  if (!std::isfinite(record.sum_squares) || record.sum_squares < 0) return view;
  view.norm = std::sqrt(record.sum_squares);
  view.sound = record.nonfinite == 0;
  if (view.sound) view.sketch = record.sketch;
  return view;
}

// Sketches of unequal size come from unequal layouts: they cannot be added, so the step counts as one without sketches.
std::size_t common_dim(std::vector<RankView>& ranks, GradientView RankView::*which) {
  std::size_t dim = 0;
  bool equal = true;
  for (const RankView& rank : ranks) {
    const std::size_t size = (rank.*which).sketch.size();
    if (size == 0) continue;
    if (dim == 0) dim = size;
    equal = equal && size == dim;
  }
  if (equal) return dim;
  for (RankView& rank : ranks) (rank.*which).sketch = {};
  return 0;
}

}  // namespace

StepView view_of(const Step& step) {
  StepView view;
  view.ranks.reserve(step.records.size());
  for (const Record& record : step.records) {
    view.ranks.push_back({&record, view_of(record.gradient), view_of(record.reduced)});
  }
  std::stable_sort(view.ranks.begin(), view.ranks.end(),
                   [](const RankView& a, const RankView& b) { return a.record->rank < b.record->rank; });

  view.sketch_dim = common_dim(view.ranks, &RankView::gradient);
  view.reduced_dim = common_dim(view.ranks, &RankView::reduced);
  if (view.reduced_dim == 0 || view.sketch_dim % view.reduced_dim != 0) view.reduced_dim = 0;

  const bool complete = !view.ranks.empty() && step.missing.empty() && view.ranks.size() >= step.world;
  view.every_rank_sound =
      complete && std::all_of(view.ranks.begin(), view.ranks.end(), [](const RankView& r) { return r.gradient.sound; });
  return view;
}

}  // namespace lockstep::stats
