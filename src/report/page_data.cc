#include "report/page_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <set>

#include "report/json_values.h"
#include "store/schema.h"

namespace lockstep::report {
namespace {

using store::RunReader;
using store::RunSummary;
using store::SeriesColumn;

constexpr std::size_t kMaxRows = 256;
constexpr std::size_t kMaxCells = 20'000;
constexpr std::size_t kMaxMatrixValues = 100'000;

bool is_cosine(std::string_view name) {
  return name.starts_with("cosine") || name == "leave_one_out";
}

bool all_absent(std::span<const float> values) {
  return std::all_of(values.begin(), values.end(), [](float value) { return std::isnan(value); });
}

json run_section(const RunSummary& summary, const std::string& name, const std::string& config) {
  const store::RunInfo& info = summary.info;
  json run = {{"name", name.empty() ? info.name : name},
              {"world", info.world},
              {"steps", summary.steps},
              {"first_step", summary.first_step ? json(*summary.first_step) : json()},
              {"last_step", summary.last_step ? json(*summary.last_step) : json()},
              {"created", iso_time(info.created_ms)},
              {"finished", summary.ended_ms.has_value()}};
  if (summary.updated_ms) run["updated"] = iso_time(*summary.updated_ms);
  if (!info.command.empty()) run["command"] = info.command;
  if (json environment = flat_object(info.environment); !environment.empty()) run["environment"] = environment;
  if (json values = flat_object(config); !values.empty()) run["config"] = values;
  return run;
}

json findings_section(const std::vector<Finding>& findings) {
  json list = json::array();
  for (const Finding& finding : findings) {
    list.push_back({{"id", finding.id},
                    {"cause", finding.cause},
                    {"ranks", finding.ranks},
                    {"first_step", finding.first_step},
                    {"last_step", finding.last_step},
                    {"certainty", to_string(finding.certainty)},
                    {"confidence", number(finding.confidence)},
                    {"parameters", finding.parameters},
                    {"evidence", flat_object(finding.evidence)},
                    {"message", finding.message},
                    {"remedy", finding.remedy}});
  }
  return list;
}

// Ranks report their own health; the page shows one: disabled where any is, counts of records added up.
Health joined(const std::map<std::uint32_t, Health>& all) {
  Health total;
  for (const auto& [rank, health] : all) {
    if (!health.enabled && total.enabled) {
      total.enabled = false;
      total.reason = Status(StatusCode::kInternal, fmt::format("rank {}: {}", rank, health.reason.message()));
    }
    total.steps_begun = std::max(total.steps_begun, health.steps_begun);
    total.steps_analysed = std::max(total.steps_analysed, health.steps_analysed);
    total.steps_sent += health.steps_sent;
    total.drops_queue += health.drops_queue;
    total.drops_late += health.drops_late;
    total.missing_records += health.missing_records;
    total.rejected_records += health.rejected_records;
    total.rejected_calls += health.rejected_calls;
    total.observer_failures += health.observer_failures;
    total.bytes_sent += health.bytes_sent;
    if (total.last_problem.empty()) total.last_problem = health.last_problem;
  }
  return total;
}

json health_section(const std::map<std::uint32_t, Health>& all, const Health& health, const std::string& store_counts) {
  json section = {
      {"enabled", health.enabled}, {"reason", health.reason.message()}, {"last_problem", health.last_problem}};
  if (!all.empty()) {
    section.update({{"steps_begun", health.steps_begun},
                    {"steps_sent", health.steps_sent},
                    {"steps_analysed", health.steps_analysed},
                    {"drops_queue", health.drops_queue},
                    {"drops_late", health.drops_late},
                    {"missing_records", health.missing_records},
                    {"rejected_records", health.rejected_records},
                    {"rejected_calls", health.rejected_calls},
                    {"observer_failures", health.observer_failures},
                    {"bytes_sent", health.bytes_sent}});
  }
  const json counts = flat_object(store_counts);
  if (counts.value("steps_dropped", std::uint64_t{0}) > 0 && health.last_problem.empty()) {
    section["last_problem"] =
        fmt::format("the disk refused: {} steps could not be stored", counts.value("steps_dropped", std::uint64_t{0}));
  }
  return section;
}

void add_buckets(json& section, const store::Buckets& buckets) {
  section["step"] = buckets.first;
  if (!buckets.one_step_each()) section["step_last"] = buckets.last;
}

json series_section(const store::StepSeries& series, const std::vector<store::ExpectedColumn>& expected,
                    const json& expected_texts) {
  json section = {{"steps_total", series.buckets.steps_total}, {"columns", json::object()}};
  add_buckets(section, series.buckets);
  for (const SeriesColumn& column : series.columns) {
    if (all_absent(column.mean)) continue;
    json entry = {{"value", numbers(column.mean, is_cosine(column.name))}};
    if (!series.buckets.one_step_each()) {
      entry["min"] = numbers(column.low, is_cosine(column.name));
      entry["max"] = numbers(column.high, is_cosine(column.name));
    }
    section["columns"][column.name] = std::move(entry);
  }
  for (const store::ExpectedColumn& column : expected) {
    const bool cosines = is_cosine(column.metric);
    json entry = expected_texts.contains(column.metric) && expected_texts[column.metric].is_object()
                     ? expected_texts[column.metric]
                     : json::object();
    entry["value"] = numbers(column.value, cosines);
    entry["low"] = numbers(column.low, cosines);
    entry["high"] = numbers(column.high, cosines);
    section["expected"][column.metric] = std::move(entry);
  }
  return section;
}

// All ranks, or at large worlds those that findings name and an even choice of the others.
std::vector<std::uint32_t> shown_ranks(std::uint32_t world, const std::vector<Finding>& findings) {
  std::vector<std::uint32_t> all(world);
  std::iota(all.begin(), all.end(), 0U);
  if (all.size() <= kMaxRows) return all;
  std::set<std::uint32_t> chosen;
  for (const Finding& finding : findings) {
    for (const std::uint32_t rank : finding.ranks) {
      if (rank < world && chosen.size() < kMaxRows / 2) chosen.insert(rank);
    }
  }
  const std::size_t even = kMaxRows - chosen.size();
  for (std::size_t i = 0; i < even; ++i) chosen.insert(static_cast<std::uint32_t>(i * world / even));
  return {chosen.begin(), chosen.end()};
}

template <class Convert>
json rows(std::size_t row_count, std::size_t width, Convert&& convert) {
  json list = json::array();
  for (std::size_t r = 0; r < row_count; ++r) list.push_back(convert(r * width, width));
  return list;
}

json grid_values(const store::RankGrid& grid, const SeriesColumn& column) {
  const std::size_t width = grid.buckets.size();
  const auto part = [&](const std::vector<float>& values) {
    return rows(grid.ranks.size(), width, [&](std::size_t at, std::size_t count) {
      return numbers(std::span(values).subspan(at, count), is_cosine(column.name));
    });
  };
  json entry = {{"value", part(column.mean)}};
  if (!grid.buckets.one_step_each()) {
    entry["min"] = part(column.low);
    entry["max"] = part(column.high);
  }
  return entry;
}

json ranks_section(const store::RankGrid& grid, std::uint32_t world) {
  json section = {{"rank", grid.ranks}};
  add_buckets(section, grid.buckets);
  if (grid.ranks.size() < world) {
    section["omitted"] = fmt::format(
        "{} of {} ranks are shown: those that findings name and an even choice of the rest", grid.ranks.size(), world);
  }
  for (const SeriesColumn* column : {&grid.loss, &grid.norm, &grid.leave_one_out}) {
    if (!all_absent(column->mean)) section[column->name] = grid_values(grid, *column);
  }
  const auto counts = [&](const char* name, const std::vector<std::uint32_t>& values) {
    if (std::all_of(values.begin(), values.end(), [](std::uint32_t value) { return value == 0; })) return;
    section[name] = rows(grid.ranks.size(), grid.buckets.size(), [&](std::size_t at, std::size_t count) {
      return json(std::vector<std::uint32_t>(values.begin() + static_cast<std::ptrdiff_t>(at),
                                             values.begin() + static_cast<std::ptrdiff_t>(at + count)));
    });
  };
  counts("nonfinite", grid.nonfinite);
  counts("missing", grid.missing);
  return section;
}

// First, last, the one at or after the beginning of each finding, and an even choice of the rest, within the budget.
std::set<std::uint64_t> shown_matrices(const std::vector<store::MatrixEntry>& entries,
                                       const std::vector<Finding>& findings) {
  std::set<std::uint64_t> chosen;
  if (entries.empty()) return chosen;
  std::size_t largest = 1;
  for (const store::MatrixEntry& entry : entries) largest = std::max<std::size_t>(largest, entry.workers);
  const std::size_t budget = std::max<std::size_t>(kMaxMatrixValues / (largest * largest), 2);
  chosen.insert(entries.back().step);
  chosen.insert(entries.front().step);
  for (const Finding& finding : findings) {
    const auto at =
        std::lower_bound(entries.begin(), entries.end(), finding.first_step,
                         [](const store::MatrixEntry& entry, std::uint64_t step) { return entry.step < step; });
    if (at != entries.end() && chosen.size() < budget) chosen.insert(at->step);
  }
  const std::size_t even = budget - chosen.size();
  for (std::size_t i = 0; i < even; ++i) chosen.insert(entries[i * entries.size() / even].step);
  return chosen;
}

Result<json> cosine_section(RunReader& reader, const RunSummary& summary, const std::vector<Finding>& findings) {
  Result<std::vector<store::MatrixEntry>> entries = reader.matrices();
  if (!entries) return entries.error();
  json section = {{"matrices", json::array()}};
  if (summary.info.layout.k > 0) section["error"] = cosine(1.0 / std::sqrt(summary.info.layout.k));
  for (const std::uint64_t step : shown_matrices(*entries, findings)) {
    Result<store::CosineMatrix> matrix = reader.matrix(step);
    if (!matrix) return matrix.error();
    section["matrices"].push_back({{"step", step},
                                   {"n", matrix->ranks.size()},
                                   {"ranks", matrix->ranks},
                                   {"values", numbers(matrix->cosines, true)}});
  }
  return section;
}

json costs_section(const store::RunTotals& timings, const Health& health, std::uint64_t store_bytes) {
  json costs = {{"store_bytes", store_bytes}};
  if (health.bytes_sent > 0) costs["bytes_sent"] = health.bytes_sent;
  if (health.bytes_sent > 0 && health.steps_sent > 0) {
    costs["bytes_per_record"] = health.bytes_sent / health.steps_sent;
  }
  if (!timings.step_ns) return costs;
  const double own = timings.digest_ns.value_or(0) + timings.other_ns.value_or(0);
  costs["step_ns_mean"] = number(timings.step_ns);
  costs["digest_ns_mean"] = number(timings.digest_ns.value_or(0));
  costs["other_ns_mean"] = number(timings.other_ns.value_or(0));
  if (*timings.step_ns > own) costs["overhead"] = number(own / (*timings.step_ns - own));
  if (timings.ranks.empty() || timings.ranks.size() > kMaxRows) return costs;
  for (const store::RankTimings& rank : timings.ranks) {
    costs["rank"].push_back(rank.rank);
    costs["rank_step_ns"].push_back(number(rank.step_ns));
    costs["rank_digest_ns"].push_back(number(rank.digest_ns));
    costs["rank_other_ns"].push_back(number(rank.other_ns));
  }
  return costs;
}

// Names of what some rank showed: "no findings" is worth as much as this list.
json channels_section(const store::RunTotals& totals) {
  json channels = json::array();
  if (totals.losses) channels.push_back("loss");
  if ((totals.observed & store::RankScalars::kGradient) != 0) channels.push_back("gradient");
  if ((totals.observed & store::RankScalars::kReduced) != 0) channels.push_back("reduced");
  constexpr std::array<const char*, kStateChannels> kStates = {"weights", "buffers", "optimizer", "rng", "config"};
  for (std::size_t c = 0; c < kStateChannels; ++c) {
    if ((totals.observed & store::RankScalars::state_bit(c)) != 0) channels.push_back(kStates[c]);
  }
  if (totals.batches) channels.push_back("batches");
  return channels;
}

// Collects the document; the first query that fails ends it.
class Builder {
 public:
  Builder(RunReader& reader, const PageOptions& options) : reader_(reader), options_(options) {}

  Result<std::string> build() {
    const RunReader::Snapshot snapshot(reader_);
    if (!snapshot.status()) return snapshot.status();
    const RunSummary summary = take(reader_.summary());
    findings_ = take(reader_.findings());
    document_ = {{"version", 1},
                 {"generated_at", iso_time(store::now_ms())},
                 {"generator", fmt::format("lockstep {}", LOCKSTEP_VERSION)}};
    for (const char* name : {store::kStudyDocument, store::kLabsDocument}) {
      if (std::optional<json> section = parse(stored(name))) document_[name] = std::move(*section);
    }
    const bool only_documents = summary.steps == 0 && (document_.contains("study") || document_.contains("labs"));
    if (status_ && !only_documents) add_run(summary);
    if (!status_) return status_;
    return to_text(document_);
  }

 private:
  void add_run(const RunSummary& summary) {
    const std::map<std::uint32_t, std::string> configs = take(reader_.configs());
    const std::map<std::uint32_t, Health> all_health = take(reader_.health());
    const Health health = joined(all_health);
    document_["run"] = run_section(summary, options_.name, configs.empty() ? "" : configs.begin()->second);
    document_["findings"] = findings_section(findings_);
    document_["health"] = health_section(all_health, health, stored(store::kStoreDocument));
    if (summary.steps == 0) {
      document_["no_verdict"] = "No step was analysed yet.";
      return;
    }
    if (summary.info.world < 2) document_["no_verdict"] = "One worker has nobody to disagree with.";
    add_series();
    add_ranks(summary);
    document_["cosine"] = take(cosine_section(reader_, summary, findings_));
    std::optional<json> audit = parse(stored(store::kAuditDocument));
    document_["audit"] = audit ? *audit : json{{"reason", "no batch fingerprints were given: call on_batch()"}};
    const store::RunTotals totals = take(reader_.totals());
    document_["channels"] = channels_section(totals);
    document_["costs"] = costs_section(totals, health, summary.bytes);
  }

  void add_series() {
    const std::size_t points = std::clamp<std::size_t>(options_.points, 100, 5000);
    const store::StepSeries series = take(reader_.step_series(options_.range, points));
    const std::vector<store::ExpectedColumn> expected = take(reader_.expected_series(series.buckets));
    document_["series"] = series_section(series, expected, flat_texts());
  }

  void add_ranks(const RunSummary& summary) {
    const std::vector<std::uint32_t> ranks = shown_ranks(summary.info.world, findings_);
    const std::size_t points = std::min({std::clamp<std::size_t>(options_.points, 100, 5000), std::size_t{400},
                                         kMaxCells / std::max<std::size_t>(ranks.size(), 1)});
    document_["ranks"] = ranks_section(take(reader_.rank_grid(options_.range, points, ranks)), summary.info.world);
  }

  json flat_texts() {
    std::optional<json> texts = parse(stored(store::kExpectedDocument));
    return texts && texts->is_object() ? *texts : json::object();
  }

  std::string stored(const char* name) { return take(reader_.document(name)).value_or(""); }

  template <class T>
  T take(Result<T> result) {
    if (result) return std::move(*result);
    if (status_) status_ = result.error();
    return T();
  }

  RunReader& reader_;
  const PageOptions& options_;
  std::vector<Finding> findings_;
  json document_;
  Status status_;
};

}  // namespace

Result<std::string> page_document(RunReader& reader, const PageOptions& options) {
  try {
    return Builder(reader, options).build();
  } catch (const std::exception& error) {
    return Status(StatusCode::kInternal, fmt::format("{}: {}", reader.folder().string(), error.what()));
  }
}

}  // namespace lockstep::report
