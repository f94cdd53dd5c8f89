#include "report/html.h"

#include <cstddef>

#include "base/atomic_file.h"
#include "report/page_data.h"
#include "report/plain_page.h"

namespace lockstep::report {

// Made by cmake/EmbedFile.cmake from web/dist/index.html; empty when the build had none.
extern const unsigned char kPage[];
extern const std::size_t kPage_size;

namespace {

// docs/page_data.md, Embedding: the built page holds this exactly once.
constexpr std::string_view kDataElement = R"(<script id="lockstep-data" type="application/json"></script>)";

std::string_view page() {
  return {reinterpret_cast<const char*>(kPage), kPage_size};
}

}  // namespace

bool has_page() {
  return page().find(kDataElement) != std::string_view::npos;
}

std::string dashboard_html() {
  return has_page() ? std::string(page()) : plain_notice();
}

std::string script_safe(std::string_view json) {
  std::string safe;
  safe.reserve(json.size() + json.size() / 64);
  for (std::size_t i = 0; i < json.size(); ++i) {
    const std::string_view rest = json.substr(i, 3);
    if (json[i] == '<') {
      safe += "\\u003c";
    } else if (rest == "\xe2\x80\xa8" || rest == "\xe2\x80\xa9") {
      safe += rest[2] == '\xa8' ? "\\u2028" : "\\u2029";
      i += 2;
    } else {
      safe += json[i];
    }
  }
  return safe;
}

std::string report_html(std::string_view document) {
  if (!has_page()) return plain_page(document);
  const std::size_t inside = page().find(kDataElement) + kDataElement.size() - std::string_view("</script>").size();
  std::string html;
  html += page().substr(0, inside);
  html += script_safe(document);
  html += page().substr(inside);
  return html;
}

Status write_report(store::RunReader& reader, const std::filesystem::path& file) {
  Result<std::string> document = page_document(reader);
  if (!document) return document.error();
  return base::write_atomically(file, report_html(*document));
}

}  // namespace lockstep::report
