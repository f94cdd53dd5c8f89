#include "store/batch.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/bytes.h"
#include "store/rank_columns.h"
#include "store/schema.h"

namespace lockstep::store {
namespace {

// Text of the host may hold any bytes; JSON in the store must be UTF-8.
std::string to_text(const nlohmann::json& json) {
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::vector<std::byte> pack_floats(const std::vector<float>& values) {
  std::vector<std::byte> bytes(4 * values.size());
  base::ByteWriter writer(bytes);
  for (const float value : values) writer.f32(value);
  return bytes;
}

std::vector<std::byte> pack_ranks(const std::vector<std::uint32_t>& ranks) {
  std::vector<std::byte> bytes(4 * ranks.size());
  base::ByteWriter writer(bytes);
  for (const std::uint32_t rank : ranks) writer.u32(rank);
  return bytes;
}

struct Mean {
  double sum = 0;
  std::size_t count = 0;
  void add(const Metric& value) {
    if (!value) return;
    sum += *value;
    ++count;
  }
  Metric value() const { return count > 0 ? Metric(sum / static_cast<double>(count)) : Metric(); }
};

std::string step_sql() {
  std::string names, marks;
  for (std::size_t i = 0; i < kStepMetrics.size(); ++i) {
    names += fmt::format(", {}", kStepMetrics[i].name);
    marks += ", ?";
  }
  return fmt::format(
      "INSERT OR REPLACE INTO step (step, time_ms, workers, missing, cosine_exact, tokens, step_ns, digest_ns, "
      "other_ns, loss_min, loss_max{}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?{})",
      names, marks);
}

}  // namespace

StepRow make_row(const Step& step, const StepStats& stats, std::optional<std::int64_t> time_ms) {
  StepRow row;
  row.step = static_cast<std::int64_t>(step.step);
  row.time_ms = time_ms;
  for (const StepMetric& metric : kStepMetrics) row.stats.*metric.member = stats.*metric.member;
  row.stats.step = step.step;
  row.stats.workers = stats.workers;
  row.stats.missing = stats.missing;
  row.stats.cosine_exact = stats.cosine_exact;
  row.band = loss_band(stats);

  std::vector<RankScalars> ranks;
  ranks.reserve(step.records.size());
  Mean step_ns, digest_ns, other_ns;
  auto known = stats.ranks.begin();
  for (const Record& record : step.records) {
    // Both lists are in rank order.
    while (known != stats.ranks.end() && known->rank < record.rank) ++known;
    const bool found = known != stats.ranks.end() && known->rank == record.rank;
    ranks.push_back(to_scalars(record, found ? &*known : nullptr));
    row.tokens += record.tokens;
    step_ns.add(ranks.back().step_ns);
    digest_ns.add(ranks.back().digest_ns);
    other_ns.add(ranks.back().other_ns);
  }
  row.step_ns = step_ns.value();
  row.digest_ns = digest_ns.value();
  row.other_ns = other_ns.value();
  row.series = encode(ranks, kSeriesColumns);
  row.detail = encode(ranks, kDetailColumns);
  return row;
}

std::int64_t matrix_stride(std::int64_t ordinal, std::int64_t max_matrices) {
  std::int64_t stride = 1;
  while (ordinal / stride >= max_matrices) stride *= 2;
  return stride;
}

bool Batch::empty() const {
  return steps.empty() && matrices.empty() && expectations.empty() && configs.empty() && findings.empty() &&
         health.empty() && documents.empty();
}

void Batch::add(MatrixRow matrix, std::int64_t max_matrices) {
  const std::int64_t stride = matrix_stride(matrix.ordinal, max_matrices);
  matrices.emplace(matrix.ordinal, std::move(matrix));
  const std::int64_t newest = matrices.rbegin()->first;
  std::erase_if(matrices, [&](const auto& kept) { return kept.first % stride != 0 && kept.first != newest; });
}

void Batch::append(Batch&& newer, std::int64_t max_matrices) {
  steps.insert(steps.end(), std::make_move_iterator(newer.steps.begin()), std::make_move_iterator(newer.steps.end()));
  for (auto& [ordinal, matrix] : newer.matrices) add(std::move(matrix), max_matrices);
  // merge() keeps what is in the target, so the newer side is the target.
  newer.expectations.merge(expectations);
  newer.configs.merge(configs);
  newer.findings.merge(findings);
  newer.health.merge(health);
  newer.documents.merge(documents);
  expectations = std::move(newer.expectations);
  configs = std::move(newer.configs);
  findings = std::move(newer.findings);
  health = std::move(newer.health);
  documents = std::move(newer.documents);
}

Result<BatchWriter> BatchWriter::create(Database& database) {
  BatchWriter writer;
  const std::string step = step_sql();
  const std::pair<Statement*, std::string_view> statements[] = {
      {&writer.step_, step},
      {&writer.series_, "INSERT OR REPLACE INTO rank_series VALUES (?, ?)"},
      {&writer.detail_, "INSERT OR REPLACE INTO rank_detail VALUES (?, ?)"},
      {&writer.expectation_, "INSERT OR REPLACE INTO expectation VALUES (?, ?, ?, ?, ?)"},
      {&writer.matrix_, "INSERT OR REPLACE INTO matrix VALUES (?, ?, ?, ?, ?)"},
      {&writer.thin_, "DELETE FROM matrix WHERE ordinal % ? != 0 AND ordinal < ?"},
      {&writer.config_, "INSERT OR REPLACE INTO config VALUES (?, ?)"},
      {&writer.finding_, "INSERT OR REPLACE INTO finding VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"},
      {&writer.health_, "INSERT OR REPLACE INTO health VALUES (?, ?, ?, ?, ?, ?)"},
      {&writer.document_, "INSERT OR REPLACE INTO document VALUES (?, ?, ?)"},
  };
  for (const auto& [statement, sql] : statements) {
    Result<Statement> prepared = database.prepare(sql);
    if (!prepared) return prepared.error();
    *statement = std::move(*prepared);
  }
  return writer;
}

Status BatchWriter::write(Database& database, const Batch& batch, std::int64_t max_matrices) {
  return in_transaction(database, [&] { return write_rows(batch, max_matrices); });
}

Status BatchWriter::write_rows(const Batch& batch, std::int64_t max_matrices) {
  const std::int64_t time = now_ms();
  for (const StepRow& row : batch.steps) {
    if (Status status = write_step(row); !status) return status;
  }
  if (Status status = write_matrices(batch, max_matrices); !status) return status;
  for (const auto& [step, expectations] : batch.expectations) {
    for (const Expectation& e : expectations) {
      expectation_.bind(1, e.metric).bind(2, static_cast<std::int64_t>(step));
      if (Status status = expectation_.bind(3, e.value).bind(4, e.low).bind(5, e.high).run(); !status) return status;
    }
  }
  for (const auto& [rank, json] : batch.configs) {
    if (Status status = config_.bind(1, std::int64_t{rank}).bind(2, json).run(); !status) return status;
  }
  for (const auto& [id, finding] : batch.findings) {
    if (Status status = write_finding(finding, time); !status) return status;
  }
  for (const auto& [rank, health] : batch.health) {
    if (Status status = write_health(rank, health, time); !status) return status;
  }
  for (const auto& [name, json] : batch.documents) {
    if (Status status = document_.bind(1, name).bind(2, time).bind(3, json).run(); !status) return status;
  }
  return Status::ok();
}

Status BatchWriter::write_step(const StepRow& row) {
  step_.bind(1, row.step);
  if (row.time_ms) {
    step_.bind(2, *row.time_ms);
  } else {
    step_.bind_null(2);
  }
  step_.bind(3, std::int64_t{row.stats.workers}).bind(4, std::int64_t{row.stats.missing});
  step_.bind(5, std::int64_t{row.stats.cosine_exact ? 1 : 0}).bind(6, static_cast<std::int64_t>(row.tokens));
  step_.bind(7, row.step_ns).bind(8, row.digest_ns).bind(9, row.other_ns);
  step_.bind(10, row.band.low).bind(11, row.band.high);
  int index = 12;
  for (const StepMetric& metric : kStepMetrics) step_.bind(index++, row.stats.*metric.member);
  if (Status status = step_.run(); !status) return status;
  if (Status status = series_.bind(1, row.step).bind(2, row.series).run(); !status) return status;
  return detail_.bind(1, row.step).bind(2, row.detail).run();
}

Status BatchWriter::write_matrices(const Batch& batch, std::int64_t max_matrices) {
  if (batch.matrices.empty()) return Status::ok();
  for (const auto& [ordinal, row] : batch.matrices) {
    matrix_.bind(1, row.step).bind(2, ordinal).bind(3, static_cast<std::int64_t>(row.ranks.size()));
    if (Status status = matrix_.bind(4, pack_ranks(row.ranks)).bind(5, pack_floats(row.cosines)).run(); !status) {
      return status;
    }
  }
  const std::int64_t newest = batch.matrices.rbegin()->first;
  return thin_.bind(1, matrix_stride(newest, max_matrices)).bind(2, newest).run();
}

Status BatchWriter::write_finding(const Finding& finding, std::int64_t time) {
  finding_.bind(1, finding.id).bind(2, finding.cause).bind(3, to_text(finding.ranks));
  finding_.bind(4, static_cast<std::int64_t>(finding.first_step));
  finding_.bind(5, static_cast<std::int64_t>(finding.last_step));
  finding_.bind(6, std::string_view(to_string(finding.certainty))).bind(7, finding.confidence);
  finding_.bind(8, to_text(finding.parameters)).bind(9, finding.evidence).bind(10, finding.message);
  return finding_.bind(11, finding.remedy).bind(12, time).run();
}

Status BatchWriter::write_health(std::uint32_t rank, const Health& health, std::int64_t time) {
  const nlohmann::json counts = {
      {"steps_begun", health.steps_begun},
      {"steps_sent", health.steps_sent},
      {"steps_analysed", health.steps_analysed},
      {"drops_queue", health.drops_queue},
      {"drops_late", health.drops_late},
      {"missing_records", health.missing_records},
      {"rejected_records", health.rejected_records},
      {"rejected_calls", health.rejected_calls},
      {"observer_failures", health.observer_failures},
      {"bytes_sent", health.bytes_sent},
  };
  health_.bind(1, std::int64_t{rank}).bind(2, time).bind(3, std::int64_t{health.enabled ? 1 : 0});
  return health_.bind(4, health.reason.message()).bind(5, to_text(counts)).bind(6, health.last_problem).run();
}

}  // namespace lockstep::store
