// The part of RunReader that walks steps: raw, downsampled, ranks x steps, timings.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "store/run_reader.h"

namespace lockstep::store {
namespace {

constexpr int kFirstMetricColumn = 11;

std::string step_query(std::string_view extra_columns, std::string_view joins) {
  std::string metrics;
  for (const StepMetric& metric : kStepMetrics) metrics += fmt::format(", s.{}", metric.name);
  return fmt::format(
      "SELECT s.step, s.time_ms, s.workers, s.missing, s.cosine_exact, s.tokens, s.step_ns, s.digest_ns, s.other_ns, "
      "s.loss_min, s.loss_max{}{} FROM step s{} WHERE s.step BETWEEN ? AND ? ORDER BY s.step",
      metrics, extra_columns, joins);
}

std::int64_t clamp_step(std::uint64_t step) {
  return static_cast<std::int64_t>(
      std::min<std::uint64_t>(step, static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())));
}

void read_step(const Statement& row, StoredStep& step) {
  step.stats.step = static_cast<std::uint64_t>(row.integer(0));
  step.time_ms = row.is_null(1) ? std::nullopt : std::optional(row.integer(1));
  step.stats.workers = static_cast<std::uint32_t>(row.integer(2));
  step.stats.missing = static_cast<std::uint32_t>(row.integer(3));
  step.stats.cosine_exact = row.integer(4) != 0;
  step.tokens = static_cast<std::uint64_t>(row.integer(5));
  step.step_ns = row.real(6);
  step.digest_ns = row.real(7);
  step.other_ns = row.real(8);
  step.band = {row.real(9), row.real(10)};
  int column = kFirstMetricColumn;
  for (const StepMetric& metric : kStepMetrics) step.stats.*metric.member = row.real(column++);
}

Status name_step(const Status& status, std::uint64_t step, const std::filesystem::path& folder) {
  return {status.code(), fmt::format("{}, step {}: {}", folder.string(), step, status.message())};
}

// Puts steps that come in order into buckets of equal numbers of steps.
class Filling {
 public:
  explicit Filling(Buckets& buckets) : buckets_(buckets) {}

  // True when the step begins a new bucket.
  bool enter(std::uint64_t step) {
    const bool begins = seen_++ % buckets_.steps_per_bucket == 0;
    if (begins) {
      buckets_.first.push_back(step);
      buckets_.last.push_back(step);
    }
    buckets_.last.back() = step;
    return begins;
  }

 private:
  Buckets& buckets_;
  std::uint64_t seen_ = 0;
};

void append(SeriesColumn& column, const Cell& cell) {
  column.mean.push_back(cell.mean());
  column.low.push_back(cell.low());
  column.high.push_back(cell.high());
}

// The cells of one bucket of a rank grid, and how they become rows of it.
struct GridBucket {
  explicit GridBucket(std::size_t ranks) : loss(ranks), norm(ranks), cosine(ranks), nonfinite(ranks), present(ranks) {}
  std::vector<Cell> loss, norm, cosine;
  std::vector<std::uint32_t> nonfinite, present;
  std::uint32_t steps = 0;
};

void place(SeriesColumn& column, std::size_t cell, const Cell& value) {
  column.mean[cell] = value.mean();
  column.low[cell] = value.low();
  column.high[cell] = value.high();
}

RankGrid lay_out(Buckets buckets, std::span<const std::uint32_t> ranks, const std::vector<GridBucket>& filled) {
  RankGrid grid;
  grid.buckets = std::move(buckets);
  grid.ranks.assign(ranks.begin(), ranks.end());
  const std::size_t cells = ranks.size() * filled.size();
  for (SeriesColumn* column : {&grid.loss, &grid.norm, &grid.leave_one_out}) {
    column->mean.assign(cells, kNoValue);
    column->low.assign(cells, kNoValue);
    column->high.assign(cells, kNoValue);
  }
  grid.loss.name = "loss";
  grid.norm.name = "norm";
  grid.leave_one_out.name = "leave_one_out";
  grid.nonfinite.assign(cells, 0);
  grid.missing.assign(cells, 0);
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    for (std::size_t b = 0; b < filled.size(); ++b) {
      const std::size_t cell = r * filled.size() + b;
      place(grid.loss, cell, filled[b].loss[r]);
      place(grid.norm, cell, filled[b].norm[r]);
      place(grid.leave_one_out, cell, filled[b].cosine[r]);
      grid.nonfinite[cell] = filled[b].nonfinite[r];
      grid.missing[cell] = filled[b].steps - filled[b].present[r];
    }
  }
  return grid;
}

}  // namespace

Status RunReader::for_each_step(const StepRange& range, Ranks ranks,
                                const std::function<bool(const StoredStep&)>& visit) {
  std::string columns, joins;
  if (ranks != Ranks::kNone) {
    columns += ", r.columns";
    joins += " LEFT JOIN rank_series r ON r.step = s.step";
  }
  if (ranks == Ranks::kAll) {
    columns += ", d.columns";
    joins += " LEFT JOIN rank_detail d ON d.step = s.step";
  }
  Result<Statement> query = database_.prepare(step_query(columns, joins));
  if (!query) return query.error();
  query->bind(1, clamp_step(range.from)).bind(2, clamp_step(range.to));
  const int blobs = kFirstMetricColumn + static_cast<int>(kStepMetrics.size());
  const int blob_count = ranks == Ranks::kNone ? 0 : ranks == Ranks::kSeries ? 1 : 2;
  StoredStep step;
  while (true) {
    Result<bool> row = query->step();
    if (!row) return row.error();
    if (!*row) return Status::ok();
    read_step(*query, step);
    step.ranks.clear();
    for (int b = 0; b < blob_count; ++b) {
      if (query->is_null(blobs + b)) continue;
      const Status decoded = decode(query->blob(blobs + b), b == 0 ? kSeriesColumns : kDetailColumns, step.ranks);
      if (!decoded) return name_step(decoded, step.stats.step, folder_);
    }
    if (!visit(step)) return Status::ok();
  }
}

Result<Buckets> RunReader::empty_buckets(const StepRange& range, std::size_t points) {
  Result<Statement> query = database_.prepare("SELECT count(*) FROM rank_series WHERE step BETWEEN ? AND ?");
  if (!query) return query.error();
  Result<bool> row = query->bind(1, clamp_step(range.from)).bind(2, clamp_step(range.to)).step();
  if (!row) return row.error();
  Buckets buckets;
  buckets.steps_total = static_cast<std::uint64_t>(query->integer(0));
  const std::uint64_t wanted = std::max<std::uint64_t>(points, 1);
  buckets.steps_per_bucket = std::max<std::uint64_t>((buckets.steps_total + wanted - 1) / wanted, 1);
  return buckets;
}

Result<StepSeries> RunReader::step_series(const StepRange& range, std::size_t points) {
  Result<Buckets> buckets = empty_buckets(range, points);
  if (!buckets) return buckets.error();
  StepSeries series;
  series.buckets = std::move(*buckets);
  for (const StepMetric& metric : kStepMetrics) series.columns.push_back({std::string(metric.name), {}, {}, {}});
  for (const char* name : {"loss_min", "loss_max", "workers", "missing"}) series.columns.push_back({name, {}, {}, {}});

  std::vector<Cell> cells(series.columns.size());
  const auto flush = [&] {
    for (std::size_t c = 0; c < cells.size(); ++c) append(series.columns[c], cells[c]);
    std::fill(cells.begin(), cells.end(), Cell());
  };
  Filling filling(series.buckets);
  const Status read = for_each_step(range, Ranks::kNone, [&](const StoredStep& step) {
    const bool first = series.buckets.size() == 0;
    if (filling.enter(step.stats.step) && !first) flush();
    std::size_t c = 0;
    for (const StepMetric& metric : kStepMetrics) cells[c++].add(step.stats.*metric.member);
    cells[c++].add(step.band.low);
    cells[c++].add(step.band.high);
    cells[c++].add(step.stats.workers);
    cells[c++].add(step.stats.missing);
    return true;
  });
  if (!read) return read;
  if (series.buckets.size() > 0) flush();
  return series;
}

Result<std::vector<ExpectedColumn>> RunReader::expected_series(const Buckets& buckets) {
  std::vector<ExpectedColumn> columns;
  if (buckets.size() == 0) return columns;
  Result<Statement> query = database_.prepare(
      "SELECT metric, step, value, low, high FROM expectation WHERE step BETWEEN ? AND ? ORDER BY metric, step");
  if (!query) return query.error();
  query->bind(1, clamp_step(buckets.first.front())).bind(2, clamp_step(buckets.last.back()));
  std::vector<std::array<Cell, 3>> cells;
  const auto flush = [&] {
    for (const auto& [value, low, high] : cells) {
      columns.back().value.push_back(value.mean());
      columns.back().low.push_back(low.mean());
      columns.back().high.push_back(high.mean());
    }
  };
  std::size_t bucket = 0;
  while (true) {
    Result<bool> row = query->step();
    if (!row) return row.error();
    if (!*row) break;
    if (columns.empty() || columns.back().metric != query->text(0)) {
      if (!columns.empty()) flush();
      columns.push_back({std::string(query->text(0)), {}, {}, {}});
      cells.assign(buckets.size(), {});
      bucket = 0;
    }
    const auto step = static_cast<std::uint64_t>(query->integer(1));
    while (bucket + 1 < buckets.size() && buckets.last[bucket] < step) ++bucket;
    for (int i = 0; i < 3; ++i) cells[bucket][static_cast<std::size_t>(i)].add(query->real(2 + i));
  }
  if (!columns.empty()) flush();
  return columns;
}

Result<RankGrid> RunReader::rank_grid(const StepRange& range, std::size_t points,
                                      std::span<const std::uint32_t> ranks) {
  Result<Buckets> buckets = empty_buckets(range, points);
  if (!buckets) return buckets.error();
  std::map<std::uint32_t, std::size_t> row_of;
  for (std::size_t i = 0; i < ranks.size(); ++i) row_of[ranks[i]] = i;

  Result<Statement> query =
      database_.prepare("SELECT step, columns FROM rank_series WHERE step BETWEEN ? AND ? ORDER BY step");
  if (!query) return query.error();
  query->bind(1, clamp_step(range.from)).bind(2, clamp_step(range.to));
  std::vector<GridBucket> filled;
  Filling filling(*buckets);
  std::vector<RankScalars> scalars;
  while (true) {
    Result<bool> row = query->step();
    if (!row) return row.error();
    if (!*row) break;
    const auto step = static_cast<std::uint64_t>(query->integer(0));
    if (filling.enter(step)) filled.emplace_back(ranks.size());
    GridBucket& bucket = filled.back();
    ++bucket.steps;
    scalars.clear();
    if (Status status = decode(query->blob(1), kSeriesColumns, scalars); !status) {
      return name_step(status, step, folder_);
    }
    for (const RankScalars& rank : scalars) {
      const auto found = row_of.find(rank.rank);
      if (found == row_of.end()) continue;
      const std::size_t r = found->second;
      bucket.loss[r].add(rank.loss);
      bucket.norm[r].add(rank.norm);
      bucket.cosine[r].add(rank.leave_one_out);
      bucket.nonfinite[r] += rank.nonfinite > 0 ? 1 : 0;
      ++bucket.present[r];
    }
  }
  return lay_out(std::move(*buckets), ranks, filled);
}

Result<RunTotals> RunReader::totals() {
  RunTotals totals;
  Result<Statement> query = database_.prepare("SELECT avg(step_ns), avg(digest_ns), avg(other_ns) FROM step");
  if (!query) return query.error();
  Result<bool> row = query->step();
  if (!row) return row.error();
  totals.step_ns = query->real(0);
  totals.digest_ns = query->real(1);
  totals.other_ns = query->real(2);

  Result<Statement> detail = database_.prepare("SELECT step, columns FROM rank_detail");
  if (!detail) return detail.error();
  std::map<std::uint32_t, std::array<Cell, 3>> sums;
  std::vector<RankScalars> scalars;
  while (true) {
    Result<bool> more = detail->step();
    if (!more) return more.error();
    if (!*more) break;
    scalars.clear();
    if (Status status = decode(detail->blob(1), kTotalsColumns, scalars); !status) {
      return name_step(status, static_cast<std::uint64_t>(detail->integer(0)), folder_);
    }
    for (const RankScalars& rank : scalars) {
      auto& [step_ns, digest_ns, other_ns] = sums[rank.rank];
      step_ns.add(rank.step_ns);
      digest_ns.add(rank.digest_ns);
      other_ns.add(rank.other_ns);
      totals.observed |= rank.observed;
      totals.losses = totals.losses || rank.loss_count > 0;
      totals.batches = totals.batches || rank.samples > 0;
    }
  }
  const auto mean = [](const Cell& cell) { return std::isnan(cell.mean()) ? Metric() : Metric(cell.mean()); };
  for (const auto& [rank, cells] : sums) {
    totals.ranks.push_back({rank, mean(cells[0]), mean(cells[1]), mean(cells[2])});
  }
  return totals;
}

}  // namespace lockstep::store
