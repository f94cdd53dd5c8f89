#include "store/import_jsonl.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "store/import_line.h"
#include "store/run_file.h"

namespace lockstep::store {
namespace {

namespace fs = std::filesystem;

Status unreadable(const fs::path& file, const std::string& why) {
  return {StatusCode::kUnavailable, fmt::format("{} cannot be read: {}", file.string(), why)};
}

Status read_file(const fs::path& file, std::vector<ImportLine>& lines, ImportSummary& summary) {
  std::error_code error;
  if (fs::is_directory(file, error)) return unreadable(file, "it is a folder; name the files in it");
  std::ifstream in(file, std::ios::binary);
  if (!in) return unreadable(file, std::strerror(errno));
  std::string text;
  for (std::uint64_t number = 1; std::getline(in, text); ++number) {
    if (number == 1 && text.starts_with("\x1f\x8b")) return unreadable(file, "it is compressed; unpack it with gunzip");
    if (number == 1 && text.starts_with("\xef\xbb\xbf")) text.erase(0, 3);
    if (text.find_first_not_of(" \t\r") == std::string::npos) continue;
    ++summary.lines;
    Result<ImportLine> line = parse_import_line(text);
    if (line) {
      lines.push_back(std::move(*line));
      ++summary.accepted;
    } else {
      ++summary.bad;
      if (summary.bad_lines.size() < kMaxBadLines) {
        summary.bad_lines.push_back({file.string(), number, line.error().message()});
      }
    }
  }
  if (in.bad()) return unreadable(file, std::strerror(errno));
  return Status::ok();
}

// The numbers at which some rank synchronised. The lines of a rank up to and with one of them make one optimizer step,
// whether "step" counts micro-steps or is the same for all micro-steps of an optimizer step. Deciding by all ranks
// together keeps a step in place when one rank's last line was lost.
class StepEnds {
 public:
  StepEnds(const std::vector<ImportLine>& lines) {
    std::vector<std::uint64_t> all;
    for (const ImportLine& line : lines) {
      all.push_back(line.step);
      if (line.norm) ends_.push_back(line.step);
    }
    sort_unique(all);
    sort_unique(ends_);
    if (ends_.empty()) ends_ = all;  // a log of losses alone: every number is a step
    micro_ = all.size() != ends_.size();
    find_period();
  }

  bool micro_steps_numbered() const { return micro_; }
  std::size_t count() const { return ends_.size(); }

  // Which step a line belongs to, or count() when it comes after the last synchronisation.
  std::size_t index_of(std::uint64_t step) const {
    return static_cast<std::size_t>(std::lower_bound(ends_.begin(), ends_.end(), step) - ends_.begin());
  }

  std::uint64_t number_of(std::size_t index) const {
    if (!micro_) return ends_[index];
    return period_ > 0 ? ends_[index] / period_ : index;
  }

 private:
  static void sort_unique(std::vector<std::uint64_t>& values) {
    std::sort(values.begin(), values.end());
    values.erase(std::unique(values.begin(), values.end()), values.end());
  }

  // Micro-steps per step, where the ends are its multiples (counted from 1) or one before them (counted from 0): then
  // dividing gives the number, also in a log that begins in the middle.
  void find_period() {
    std::uint64_t gap = 0;
    for (std::size_t i = 1; i < ends_.size(); ++i) {
      const std::uint64_t difference = ends_[i] - ends_[i - 1];
      gap = gap == 0 ? difference : std::min(gap, difference);
    }
    if (gap == 0) return;
    for (const std::uint64_t first : {std::uint64_t{0}, std::uint64_t{1}}) {
      if (std::all_of(ends_.begin(), ends_.end(), [&](std::uint64_t end) { return (end + 1 - first) % gap == 0; })) {
        period_ = gap;
      }
    }
  }

  std::vector<std::uint64_t> ends_;
  bool micro_ = false;
  std::uint64_t period_ = 0;
};

void set_norm(GradientRecord& gradient, double norm) {
  gradient = GradientRecord();
  gradient.observed = true;
  if (std::isfinite(norm)) {
    gradient.sum_squares = norm * norm;
  } else {
    gradient.nonfinite = 1;
  }
}

void fold(Record& record, const ImportLine& line, ImportSummary& summary) {
  if (line.loss && std::isfinite(*line.loss)) {
    record.loss_sum += *line.loss;
    ++record.loss_count;
    record.token_loss_sum += *line.loss * static_cast<double>(line.tokens);
    record.tokens += line.tokens;
  } else if (line.loss) {
    ++record.loss_nonfinite;
  }
  if (line.norm) {
    if (record.gradient.observed) ++summary.repeated;
    set_norm(record.gradient, *line.norm);
  }
  if (line.reduced_norm) set_norm(record.reduced, *line.reduced_norm);
  record.fingerprint_count += line.batch.size();
  record.fingerprints.insert(record.fingerprints.end(), line.batch.begin(), line.batch.end());
}

void note_missing(Step& step, ImportSummary& summary) {
  std::size_t next = 0;
  for (std::uint32_t rank = 0; rank < step.world; ++rank) {
    if (next < step.records.size() && step.records[next].rank == rank) {
      ++next;
    } else {
      step.missing.push_back(rank);
    }
  }
  summary.missing_records += step.missing.size();
}

std::vector<Step> build_steps(std::vector<ImportLine> lines, ImportSummary& summary) {
  const StepEnds ends(lines);
  summary.micro_steps_numbered = ends.micro_steps_numbered();
  for (const ImportLine& line : lines) summary.world = std::max(summary.world, line.rank + 1);
  summary.unfinished +=
      std::erase_if(lines, [&](const auto& line) { return ends.index_of(line.step) == ends.count(); });
  // Stable: lines of one rank and step stay in the order of the files.
  std::stable_sort(lines.begin(), lines.end(), [&](const ImportLine& a, const ImportLine& b) {
    const std::size_t step_a = ends.index_of(a.step), step_b = ends.index_of(b.step);
    return step_a != step_b ? step_a < step_b : a.rank < b.rank;
  });
  std::vector<Step> steps;
  std::size_t current = ends.count();
  for (const ImportLine& line : lines) {
    if (const std::size_t index = ends.index_of(line.step); index != current) {
      current = index;
      steps.emplace_back();
      steps.back().step = ends.number_of(index);
      steps.back().world = summary.world;
    }
    std::vector<Record>& records = steps.back().records;
    if (records.empty() || records.back().rank != line.rank) {
      records.emplace_back();
      records.back().rank = line.rank;
      records.back().world = summary.world;
      records.back().step = steps.back().step;
    }
    fold(records.back(), line, summary);
  }
  for (Step& step : steps) note_missing(step, summary);
  summary.steps = steps.size();
  return steps;
}

}  // namespace

std::string to_json(const ImportSummary& summary) {
  nlohmann::json bad = nlohmann::json::array();
  for (const BadLine& line : summary.bad_lines) {
    bad.push_back({{"file", line.file}, {"line", line.line}, {"reason", line.reason}});
  }
  const nlohmann::json json = {{"version", 1},
                               {"files", summary.files},
                               {"lines", summary.lines},
                               {"accepted", summary.accepted},
                               {"bad", summary.bad},
                               {"bad_lines", bad},
                               {"unfinished", summary.unfinished},
                               {"repeated", summary.repeated},
                               {"steps", summary.steps},
                               {"missing_records", summary.missing_records},
                               {"world", summary.world},
                               {"micro_steps_numbered", summary.micro_steps_numbered}};
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

Result<ImportedLog> read_jsonl(std::span<const fs::path> files) {
  ImportedLog log;
  std::vector<ImportLine> lines;
  for (const fs::path& file : files) {
    if (Status status = read_file(file, lines, log.summary); !status) return status;
    ++log.summary.files;
  }
  if (lines.empty()) {
    const auto& bad = log.summary.bad_lines;
    const std::string first = bad.empty()
                                  ? "the files are empty"
                                  : fmt::format("{}:{}: {}", bad.front().file, bad.front().line, bad.front().reason);
    return Status(StatusCode::kInvalidArgument,
                  fmt::format("none of {} lines can be used ({}): docs/import.md shows what a line looks like",
                              log.summary.lines, first));
  }
  log.steps = build_steps(std::move(lines), log.summary);
  return log;
}

Result<ImportSummary> import_jsonl(std::span<const fs::path> files, const fs::path& folder, RunInfo info,
                                   const Analyse& analyse,
                                   const std::function<void(RunWriter&, const Step&, const StepStats&)>& writer_hook,
                                   RunWriterOptions options) {
  Result<ImportedLog> log = read_jsonl(files);
  if (!log) return log.error();
  info.world = log->summary.world;
  options.wait_when_full = true;
  options.stamp_time = false;
  Result<std::shared_ptr<RunWriter>> writer = RunWriter::create(folder, info, options);
  if (!writer) return writer.error();
  for (const Step& step : log->steps) {
    const StepStats stats = analyse(step);
    (*writer)->on_step(step, stats);
    if (writer_hook) writer_hook(**writer, step, stats);
  }
  (*writer)->put_document("import", to_json(log->summary));
  const Status closed = (*writer)->close(std::chrono::minutes(5));
  if (!closed || (*writer)->health().steps_dropped > 0) {
    writer->reset();
    remove_run_files(folder);
    return closed ? Status(StatusCode::kIo, fmt::format("{}: not all steps could be written", folder.string()))
                  : closed;
  }
  return log->summary;
}

}  // namespace lockstep::store
