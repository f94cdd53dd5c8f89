#include "report/plain_page.h"

#include <fmt/format.h>

#include "report/json_values.h"

namespace lockstep::report {
namespace {

constexpr const char* kHead = R"(<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>Lockstep</title><style>
:root { color-scheme: light dark; font-family: system-ui, sans-serif; line-height: 1.5; }
body { max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; } td, th { padding: .2rem .8rem; text-align: left; border-bottom: 1px solid #8886; }
td.n { text-align: right; font-variant-numeric: tabular-nums; }
</style></head><body>
)";
constexpr const char* kTail = "</body></html>\n";

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string words(const json& value) {
  if (value.is_null()) return "no verdict";
  return escaped(value.is_string() ? value.get<std::string>() : to_text(value));
}

// A field that the document lacks reads as null.
const json& field(const json& object, const char* name) {
  static const json kNothing;
  const auto found = object.is_object() ? object.find(name) : object.end();
  return found != object.end() ? *found : kNothing;
}

std::string finding_html(const json& finding) {
  return fmt::format(
      "<article><h3>{}</h3><p>{} on rank {} since step {} ({})</p><p>Evidence: {}</p><p>Remedy: {}</p></article>\n",
      words(field(finding, "message")), words(field(finding, "cause")), words(field(finding, "ranks")),
      words(field(finding, "first_step")), words(field(finding, "certainty")), words(field(finding, "evidence")),
      words(field(finding, "remedy")));
}

std::string metrics_html(const json& series) {
  std::string rows;
  for (const auto& [name, column] : field(series, "columns").items()) {
    const json& values = field(column, "value");
    if (values.empty()) continue;
    rows += fmt::format("<tr><th>{}</th><td class=\"n\">{}</td><td class=\"n\">{}</td></tr>\n", escaped(name),
                        words(values.front()), words(values.back()));
  }
  return "<h2>Metrics</h2><table><tr><th>metric</th><th>first</th><th>last</th></tr>\n" + rows + "</table>\n";
}

}  // namespace

std::string plain_page(std::string_view document) {
  const json parsed = json::parse(document, nullptr, false);
  std::string html = kHead;
  if (!parsed.is_object()) return html + "<p>This report has no data.</p>" + kTail;
  if (parsed.contains("run")) {
    const json& run = field(parsed, "run");
    html += fmt::format("<h1>{}</h1><p>{} workers, {} steps, made {}</p>\n", words(field(run, "name")),
                        words(field(run, "world")), words(field(run, "steps")), words(field(run, "created")));
    html += "<h2>Findings</h2>\n";
    if (parsed.contains("no_verdict")) html += fmt::format("<p>{}</p>\n", words(field(parsed, "no_verdict")));
    if (field(parsed, "findings").empty() && !parsed.contains("no_verdict")) html += "<p>No findings.</p>\n";
    for (const json& finding : field(parsed, "findings")) html += finding_html(finding);
  }
  if (parsed.contains("series")) html += metrics_html(field(parsed, "series"));
  return html + "<p>This lockstep was built without its web page; build web/ to see the plots.</p>\n" + kTail;
}

std::string plain_notice() {
  return std::string(kHead) +
         "<h1>Lockstep</h1><p>This lockstep was built without its web page: run npm ci and npm run build in web/, then "
         "build again. The data is at <code>api/runs</code>.</p>\n" +
         kTail;
}

}  // namespace lockstep::report
