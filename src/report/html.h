// The report: the page with its data inside, in one file that needs no network.
//
// The page is web/dist/index.html as it was when this was built. Where the build had none, a plain page with the
// findings and the metrics as tables takes its place.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "lockstep/status.h"
#include "store/run_reader.h"

namespace lockstep::report {

// Whether the page of web/ is inside this program.
bool has_page();

// The page with an empty data element: the live dashboard. Without a built page, a notice that says so.
std::string dashboard_html();

// The page with `document` (JSON of page_document) inside.
std::string report_html(std::string_view document);

// JSON that may stand inside a script element: no "<", no U+2028 or U+2029.
std::string script_safe(std::string_view json);

// Writes the report of a run. A failure leaves an older report as it was.
Status write_report(store::RunReader& reader, const std::filesystem::path& file);

}  // namespace lockstep::report
