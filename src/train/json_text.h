// JSON from files that we did not write: config.json, the safetensors header, the shard index.
// Refuses what a lenient reader lets pass and what then hides a mistake: repeated keys, deep nesting, trailing text.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "lockstep/status.h"

namespace lockstep::train {

// The object in `text`. `source` names the file in messages.
Result<nlohmann::json> parse_json_object(std::string_view text, const std::string& source);

// Text of a key or name from a foreign file, safe to print: control characters become '?', long ones are cut.
std::string printable(std::string_view text);

}  // namespace lockstep::train
