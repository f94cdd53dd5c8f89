// The JSON document that the web page shows, built from a run: docs/page_data.md is its contract.
#pragma once

#include <cstddef>
#include <string>

#include "lockstep/status.h"
#include "store/run_reader.h"

namespace lockstep::report {

struct PageOptions {
  std::size_t points = 1000;  // buckets of the series, clamped to 100 .. 5000
  store::StepRange range;
  std::string name;  // of the run as the reader of the page knows it; the stored name when empty
};

// UTF-8 JSON, no line breaks. One consistent state of the run, also while it is written.
Result<std::string> page_document(store::RunReader& reader, const PageOptions& options = {});

}  // namespace lockstep::report
