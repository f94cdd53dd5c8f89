// Runs from logs: per-rank JSON lines become steps and records, as if Lockstep had watched that training.
//
// The lines are those of the paper ({"step","rank","loss_local","grad_norm_pre_ar"}) and a superset that docs/import.md
// documents. A bad line is named by file and number and left out; the rest is kept. Logs hold no gradients, so the
// records have norms but no sketches and no hashes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "lockstep/stats.h"
#include "lockstep/status.h"
#include "store/run_writer.h"

namespace lockstep::store {

struct BadLine {
  std::string file;
  std::uint64_t line = 0;  // from 1
  std::string reason;
};

struct ImportSummary {
  std::uint64_t files = 0;
  std::uint64_t lines = 0;  // that are not blank
  std::uint64_t accepted = 0;
  std::uint64_t bad = 0;
  std::vector<BadLine> bad_lines;  // the first kMaxBadLines of them
  std::uint64_t unfinished = 0;    // accepted lines after the last synchronisation: part of no step
  std::uint64_t repeated = 0;      // norms that a later line of the same rank and step replaced
  std::uint64_t steps = 0;
  std::uint64_t missing_records = 0;
  std::uint32_t world = 0;
  bool micro_steps_numbered = false;  // "step" counted micro-steps; steps were numbered anew
};
inline constexpr std::size_t kMaxBadLines = 1000;

std::string to_json(const ImportSummary& summary);

struct ImportedLog {
  std::vector<Step> steps;  // in order
  ImportSummary summary;
};

// Fails when a file cannot be read or no line is good; never for single bad lines.
Result<ImportedLog> read_jsonl(std::span<const std::filesystem::path> files);

using Analyse = std::function<StepStats(const Step&)>;

// Reads the files, then makes the run `folder` of them: all of it or nothing. `analyse` gives each step's metrics;
// `writer_hook`, when given, sees each step after it was stored and may add findings.
Result<ImportSummary> import_jsonl(
    std::span<const std::filesystem::path> files, const std::filesystem::path& folder, RunInfo info,
    const Analyse& analyse, const std::function<void(RunWriter&, const Step&, const StepStats&)>& writer_hook = {},
    RunWriterOptions options = {});

}  // namespace lockstep::store
