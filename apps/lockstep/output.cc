#include "output.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>

#include "commands.h"

namespace lockstep::app {

std::string Table::text() const {
  std::vector<std::size_t> widths(header_.size());
  const auto measure = [&](const std::vector<std::string>& row) {
    for (std::size_t i = 0; i < row.size() && i < widths.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  };
  measure(header_);
  for (const auto& row : rows_) measure(row);
  std::string out;
  const auto line = [&](const std::vector<std::string>& row) {
    std::string text;
    for (std::size_t i = 0; i < row.size() && i < widths.size(); ++i) {
      text += i == 0 ? fmt::format("  {:<{}}", row[i], widths[i]) : fmt::format("  {:>{}}", row[i], widths[i]);
    }
    out += text.substr(0, text.find_last_not_of(' ') + 1) + "\n";
  };
  line(header_);
  for (const auto& row : rows_) line(row);
  return out;
}

void Output::print(const std::string& text) const {
  std::FILE* stream = json_path == "-" ? stderr : stdout;
  std::fputs(text.c_str(), stream);
  std::fflush(stream);
}

bool Output::write_json(const nlohmann::json& document) const {
  if (json_path.empty()) return true;
  const std::string text = document.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  if (json_path == "-") return std::fputs(text.c_str(), stdout) >= 0 && std::fflush(stdout) == 0;
  const std::string partial = json_path + ".part";
  {
    std::ofstream file(partial, std::ios::binary | std::ios::trunc);
    file << text;
    file.close();
    if (!file) {
      std::remove(partial.c_str());
      fmt::print(stderr, "lockstep: cannot write {}: is the folder there and writable, and the disk not full?\n",
                 json_path);
      return false;
    }
  }
  if (std::rename(partial.c_str(), json_path.c_str()) != 0) {
    std::remove(partial.c_str());
    fmt::print(stderr, "lockstep: cannot replace {}\n", json_path);
    return false;
  }
  return true;
}

void add_json_option(CLI::App& command, Output& output) {
  command.add_option("--json", output.json_path, "write the results as JSON (- for standard output)");
}

int fail(const Status& status) {
  fmt::print(stderr, "lockstep: {}\n", status.message());
  return status.code() == StatusCode::kInvalidArgument ? kUsage : kFailure;
}

std::string number(double value, int digits) {
  if (!std::isfinite(value)) return "-";
  return fmt::format("{:.{}g}", value, digits);
}

}  // namespace lockstep::app
