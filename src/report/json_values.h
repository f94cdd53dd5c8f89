// Numbers, times and foreign text as the page's JSON wants them: six digits, null for what JSON cannot hold.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "lockstep/stats.h"

namespace lockstep::report {

using nlohmann::json;

json number(double value);  // six significant digits; null when not finite
json number(const Metric& value);
json cosine(double value);  // four decimals
json numbers(std::span<const float> values, bool cosines = false);
json iso_time(std::int64_t ms);  // 2026-01-31T09:15:02Z
json iso_time(const std::optional<std::int64_t>& ms);

// A stored JSON object as name -> text, number, boolean, null, or flat list of these; what is deeper becomes text.
json flat_object(std::string_view text);
// As it is; nothing when it does not parse as an object or list.
std::optional<json> parse(std::string_view text);

// Invalid UTF-8 is replaced.
std::string to_text(const json& value);

}  // namespace lockstep::report
