#include "export/table_export.h"

#include <fmt/format.h>

#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <system_error>

#include "base/atomic_file.h"
#include "export/rank_fields.h"

namespace lockstep::exports {
namespace {

namespace fs = std::filesystem;
using base::AtomicFile;
using nlohmann::json;
using store::RunReader;
using store::StoredStep;

Status make_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (!error) return Status::ok();
  return {StatusCode::kIo, fmt::format("folder {} cannot be made: {}", folder.string(), error.message())};
}

// RFC 4180: quoted where needed, quotes doubled.
std::string csv_text(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"') out += '"';
    out += c;
  }
  out += '"';
  return out;
}

std::string csv_number(const Metric& value) {
  return value ? fmt::format("{}", *value) : "";
}

std::string csv_field(const FieldValue& value) {
  switch (value.kind) {
    case FieldValue::Kind::kNone:
      return "";
    case FieldValue::Kind::kReal:
      return fmt::format("{}", value.real);
    case FieldValue::Kind::kInteger:
      return fmt::format("{}", value.integer);
    case FieldValue::Kind::kHash:
      return fmt::format("{:016x}", value.integer);
  }
  return "";
}

json json_field(const FieldValue& value) {
  switch (value.kind) {
    case FieldValue::Kind::kNone:
      return {};
    case FieldValue::Kind::kReal:
      return std::isfinite(value.real) ? json(value.real) : json();
    case FieldValue::Kind::kInteger:
      return value.integer;
    case FieldValue::Kind::kHash:
      return fmt::format("{:016x}", value.integer);
  }
  return {};
}

json json_number(const Metric& value) {
  return value && std::isfinite(*value) ? json(*value) : json();
}

std::string line_of(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

std::string csv_step(const StoredStep& step) {
  std::string line =
      fmt::format("{},{},{},{},{},{},{},{},{}", step.stats.step, step.time_ms ? std::to_string(*step.time_ms) : "",
                  step.stats.workers, step.stats.missing, step.stats.cosine_exact ? 1 : 0, step.tokens,
                  csv_number(step.step_ns), csv_number(step.digest_ns), csv_number(step.other_ns));
  line += fmt::format(",{},{}", csv_number(step.band.low), csv_number(step.band.high));
  for (const store::StepMetric& metric : store::kStepMetrics) line += fmt::format(",{}", csv_number(step.stats.*metric.member));
  return line + "\n";
}

json json_step(const StoredStep& step) {
  json line = {{"step", step.stats.step},
               {"workers", step.stats.workers},
               {"missing", step.stats.missing},
               {"cosine_exact", step.stats.cosine_exact},
               {"tokens", step.tokens},
               {"time_ms", step.time_ms ? json(*step.time_ms) : json()},
               {"step_ns", json_number(step.step_ns)},
               {"digest_ns", json_number(step.digest_ns)},
               {"other_ns", json_number(step.other_ns)},
               {"loss_min", json_number(step.band.low)},
               {"loss_max", json_number(step.band.high)}};
  for (const store::StepMetric& metric : store::kStepMetrics) {
    line[std::string(metric.name)] = json_number(step.stats.*metric.member);
  }
  return line;
}

// Only what is known: a reader takes an absent field as it takes null.
std::string jsonl_rank(std::uint64_t step, const store::RankScalars& rank) {
  json line = {{"step", step}, {"rank", rank.rank}};
  for_each_rank_field(rank, [&](const char* name, const FieldValue& value) {
    if (json field = json_field(value); !field.is_null()) line[name] = std::move(field);
  });
  return line_of(line);
}

json json_finding(const Finding& finding) {
  const json evidence = json::parse(finding.evidence, nullptr, false);
  return {{"id", finding.id},
          {"cause", finding.cause},
          {"ranks", finding.ranks},
          {"first_step", finding.first_step},
          {"last_step", finding.last_step},
          {"certainty", to_string(finding.certainty)},
          {"confidence", json_number(finding.confidence)},
          {"parameters", finding.parameters},
          {"evidence", evidence.is_discarded() ? json(finding.evidence) : evidence},
          {"message", finding.message},
          {"remedy", finding.remedy}};
}

std::string csv_finding(const Finding& finding) {
  std::string ranks;
  for (const std::uint32_t rank : finding.ranks) ranks += fmt::format("{}{}", ranks.empty() ? "" : " ", rank);
  std::string parameters;
  for (const std::string& name : finding.parameters) {
    parameters += fmt::format("{}{}", parameters.empty() ? "" : " ", name);
  }
  return fmt::format("{},{},{},{},{},{},{},{},{},{},{}\n", csv_text(finding.id), csv_text(finding.cause), ranks,
                     finding.first_step, finding.last_step, to_string(finding.certainty), finding.confidence,
                     csv_text(parameters), csv_text(finding.evidence), csv_text(finding.message),
                     csv_text(finding.remedy));
}

std::string step_header() {
  std::string line = "step,time_ms,workers,missing,cosine_exact,tokens,step_ns,digest_ns,other_ns,loss_min,loss_max";
  for (const store::StepMetric& metric : store::kStepMetrics) line += fmt::format(",{}", metric.name);
  return line + "\n";
}

std::string rank_header() {
  std::string line = "step,rank";
  for_each_rank_field({}, [&](const char* name, const FieldValue&) { line += fmt::format(",{}", name); });
  return line + "\n";
}

// Both formats: one pass over the steps fills two files, then the findings the third.
struct Format {
  std::string suffix;
  std::string step_head, rank_head, finding_head;
  std::function<std::string(const StoredStep&)> step;
  std::function<std::string(std::uint64_t, const store::RankScalars&)> rank;
  std::function<std::string(const Finding&)> finding;
};

Status export_tables(RunReader& reader, const fs::path& folder, const Format& format) {
  if (Status status = make_folder(folder); !status) return status;
  const RunReader::Snapshot snapshot(reader);
  if (!snapshot.status()) return snapshot.status();
  AtomicFile steps(folder / ("steps" + format.suffix));
  AtomicFile ranks(folder / ("ranks" + format.suffix));
  AtomicFile findings(folder / ("findings" + format.suffix));
  steps.append(format.step_head);
  ranks.append(format.rank_head);
  findings.append(format.finding_head);
  const Status read = reader.for_each_step({}, RunReader::Ranks::kAll, [&](const StoredStep& step) {
    steps.append(format.step(step));
    for (const store::RankScalars& rank : step.ranks) ranks.append(format.rank(step.stats.step, rank));
    return true;
  });
  if (!read) return read;
  Result<std::vector<Finding>> found = reader.findings();
  if (!found) return found.error();
  for (const Finding& finding : *found) findings.append(format.finding(finding));
  for (AtomicFile* file : {&steps, &ranks, &findings}) {
    if (Status status = file->commit(); !status) return status;
  }
  return Status::ok();
}

}  // namespace

Status export_csv(RunReader& reader, const fs::path& folder) {
  const Format format{".csv",
                      step_header(),
                      rank_header(),
                      "id,cause,ranks,first_step,last_step,certainty,confidence,parameters,evidence,message,remedy\n",
                      csv_step,
                      [](std::uint64_t step, const store::RankScalars& rank) {
                        std::string line = fmt::format("{},{}", step, rank.rank);
                        for_each_rank_field(rank, [&](const char*, const FieldValue& value) {
                          line += ",";
                          line += csv_field(value);
                        });
                        return line + "\n";
                      },
                      csv_finding};
  return export_tables(reader, folder, format);
}

Status export_jsonl(RunReader& reader, const fs::path& folder) {
  const Format format{".jsonl",
                      "",
                      "",
                      "",
                      [](const StoredStep& step) { return line_of(json_step(step)); },
                      jsonl_rank,
                      [](const Finding& finding) { return line_of(json_finding(finding)); }};
  return export_tables(reader, folder, format);
}

}  // namespace lockstep::exports
