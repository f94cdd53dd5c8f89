// A run as plain tables: CSV for spreadsheets, JSON lines for programs. Numbers are printed with all their digits and
// with "." whatever the locale; what has no verdict is an empty field or null.
#pragma once

#include <filesystem>

#include "lockstep/status.h"
#include "store/run_reader.h"

namespace lockstep::exports {

// Into `folder`, which is made: steps.csv, ranks.csv (one row per step and rank), findings.csv. Each file is complete
// or absent.
Status export_csv(store::RunReader& reader, const std::filesystem::path& folder);

// Into `folder`: steps.jsonl, ranks.jsonl (lines that `lockstep import` reads), findings.jsonl.
Status export_jsonl(store::RunReader& reader, const std::filesystem::path& folder);

}  // namespace lockstep::exports
