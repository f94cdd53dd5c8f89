// A page without scripts, for builds without web/: findings and metrics as tables.
#pragma once

#include <string>
#include <string_view>

namespace lockstep::report {

// `document`: JSON of page_document. What it lacks is left out.
std::string plain_page(std::string_view document);

// In place of the dashboard, which needs the built page.
std::string plain_notice();

}  // namespace lockstep::report
