#include "store/import_line.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>

namespace lockstep::store {
namespace {

using nlohmann::json;

Status bad(std::string message) {
  return {StatusCode::kInvalidArgument, std::move(message)};
}

// Python's json module writes NaN, Infinity and -Infinity bare, and they are what a diagnosis most wants to see. Makes
// them strings, outside of strings.
std::string quote_constants(std::string_view text) {
  std::string out;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string && c == '\\' && i + 1 < text.size()) {
      out += c;
      out += text[++i];
      continue;
    }
    if (c == '"') in_string = !in_string;
    if (!in_string) {
      const std::string_view rest = text.substr(i);
      std::string_view constant;
      for (const std::string_view candidate : {"NaN", "Infinity", "-Infinity"}) {
        if (rest.starts_with(candidate)) constant = candidate;
      }
      if (!constant.empty()) {
        out += fmt::format("\"{}\"", constant);
        i += constant.size() - 1;
        continue;
      }
    }
    out += c;
  }
  return out;
}

std::optional<double> constant_value(const std::string& text) {
  if (text == "NaN") return std::numeric_limits<double>::quiet_NaN();
  if (text == "Infinity") return std::numeric_limits<double>::infinity();
  if (text == "-Infinity") return -std::numeric_limits<double>::infinity();
  return std::nullopt;
}

Status read_number(const json& line, const char* name, std::optional<double>& out) {
  const auto found = line.find(name);
  if (found == line.end() || found->is_null()) return Status::ok();
  if (found->is_number()) {
    out = found->get<double>();
    return Status::ok();
  }
  if (found->is_string()) out = constant_value(found->get_ref<const std::string&>());
  return out ? Status::ok() : bad(fmt::format("\"{}\" is no number", name));
}

Status read_norm(const json& line, const char* name, std::optional<double>& out) {
  if (Status status = read_number(line, name, out); !status) return status;
  return out && *out < 0 ? bad(fmt::format("\"{}\" is negative", name)) : Status::ok();
}

Status read_count(const json& line, const char* name, bool required, std::uint64_t max, std::uint64_t& out) {
  const auto found = line.find(name);
  if (found == line.end() || (found->is_null() && !required)) {
    return required ? bad(fmt::format("\"{}\" is missing", name)) : Status::ok();
  }
  // Loggers that keep everything as floats write 12.0.
  const bool whole = found->is_number_float() && found->get<double>() >= 0 && found->get<double>() < 9e15 &&
                     std::trunc(found->get<double>()) == found->get<double>();
  if (!found->is_number_unsigned() && !whole) return bad(fmt::format("\"{}\" is no whole number from 0 on", name));
  out = whole ? static_cast<std::uint64_t>(found->get<double>()) : found->get<std::uint64_t>();
  return out <= max ? Status::ok() : bad(fmt::format("\"{}\" is {}, more than {}", name, out, max));
}

Status read_batch(const json& line, std::vector<std::uint64_t>& out) {
  const auto found = line.find("batch_ids");
  if (found == line.end() || found->is_null()) return Status::ok();
  if (!found->is_array()) return bad("\"batch_ids\" is no list");
  for (const json& id : *found) {
    if (!id.is_string() && !id.is_number_integer()) return bad("\"batch_ids\" holds something that is no id");
    // An id is a name: 7 and "7" are the same sample.
    const std::string name = id.is_string() ? id.get<std::string>() : id.dump();
    out.push_back(XXH3_64bits(name.data(), name.size()));
  }
  return Status::ok();
}

}  // namespace

Result<ImportLine> parse_import_line(std::string_view text) {
  json line = json::parse(text, nullptr, false);
  if (line.is_discarded()) line = json::parse(quote_constants(text), nullptr, false);
  if (line.is_discarded()) return bad("is no JSON");
  if (!line.is_object()) return bad("is no JSON object");

  ImportLine parsed;
  std::uint64_t rank = 0;
  constexpr std::uint64_t kMaxStep = std::numeric_limits<std::int64_t>::max();
  for (const Status& status :
       {read_count(line, "step", true, kMaxStep, parsed.step), read_count(line, "rank", true, kMaxImportRank, rank),
        read_number(line, "loss_local", parsed.loss), read_norm(line, "grad_norm_pre_ar", parsed.norm),
        read_norm(line, "grad_norm_post_ar", parsed.reduced_norm),
        read_count(line, "tokens", false, std::numeric_limits<std::uint32_t>::max(), parsed.tokens),
        read_batch(line, parsed.batch)}) {
    if (!status) return status;
  }
  parsed.rank = static_cast<std::uint32_t>(rank);
  if (!parsed.loss && !parsed.norm) return bad("has neither \"loss_local\" nor \"grad_norm_pre_ar\"");
  return parsed;
}

}  // namespace lockstep::store
