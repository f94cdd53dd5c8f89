#include "report/json_values.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <ctime>

namespace lockstep::report {
namespace {

// The double nearest to the decimal of `format`: its shortest form, which is what gets printed, is that decimal.
json rounded(const std::string& decimal) {
  double value = 0;
  std::from_chars(decimal.data(), decimal.data() + decimal.size(), value);
  // Whole numbers print as 12, not 12.0.
  if (value == std::trunc(value) && std::abs(value) < 1e15) return static_cast<std::int64_t>(value);
  return value;
}

bool scalar(const json& value) {
  return value.is_primitive() && !value.is_binary();
}

json finite(const json& value) {
  return value.is_number_float() && !std::isfinite(value.get<double>()) ? json() : value;
}

json flat(const json& value) {
  if (scalar(value)) return finite(value);
  if (!value.is_array()) return to_text(value);
  json list = json::array();
  for (const json& element : value) list.push_back(scalar(element) ? finite(element) : json(to_text(element)));
  return list;
}

}  // namespace

json number(double value) {
  return std::isfinite(value) ? rounded(fmt::format("{:.6g}", value)) : json();
}

json number(const Metric& value) {
  return value ? number(*value) : json();
}

json cosine(double value) {
  return std::isfinite(value) ? rounded(fmt::format("{:.4f}", value)) : json();
}

json numbers(std::span<const float> values, bool cosines) {
  json list = json::array();
  for (const float value : values) list.push_back(cosines ? cosine(value) : number(static_cast<double>(value)));
  return list;
}

json iso_time(std::int64_t ms) {
  const auto seconds = static_cast<std::time_t>(ms / 1000);
  std::tm utc{};
  if (gmtime_r(&seconds, &utc) == nullptr) return {};
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z", utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday,
                     utc.tm_hour, utc.tm_min, utc.tm_sec);
}

json iso_time(const std::optional<std::int64_t>& ms) {
  return ms ? iso_time(*ms) : json();
}

json flat_object(std::string_view text) {
  json object = json::object();
  const json parsed = json::parse(text, nullptr, false);
  if (!parsed.is_object()) return object;
  for (const auto& [name, value] : parsed.items()) object[name] = flat(value);
  return object;
}

std::optional<json> parse(std::string_view text) {
  json parsed = json::parse(text, nullptr, false);
  if (!parsed.is_object() && !parsed.is_array()) return std::nullopt;
  return parsed;
}

std::string to_text(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace lockstep::report
