#include "train/json_text.h"

#include <fmt/core.h>

#include <optional>
#include <set>
#include <vector>

namespace lockstep::train {
namespace {

constexpr int kMaxDepth = 32;  // config.json of today's models reaches 4
constexpr std::size_t kMaxPrinted = 96;

// Follows nlohmann's parse events: its own document silently keeps the last of two equal keys.
class StrictParse {
 public:
  bool operator()(int depth, nlohmann::json::parse_event_t event, const nlohmann::json& parsed) {
    using Event = nlohmann::json::parse_event_t;
    if (depth > kMaxDepth) {
      too_deep_ = true;
      return false;  // discarded, so that nesting costs no memory
    }
    const auto level = static_cast<std::size_t>(depth);
    if (event == Event::object_start) {
      if (keys_.size() <= level + 1) keys_.resize(level + 2);
      keys_[level + 1].clear();
    } else if (event == Event::key && level < keys_.size() && parsed.is_string()) {
      const auto& key = parsed.get_ref<const std::string&>();
      if (!keys_[level].insert(key).second && !repeated_) repeated_ = key;
    }
    return true;
  }

  bool too_deep() const { return too_deep_; }
  const std::optional<std::string>& repeated() const { return repeated_; }

 private:
  std::vector<std::set<std::string>> keys_;
  std::optional<std::string> repeated_;
  bool too_deep_ = false;
};

}  // namespace

std::string printable(std::string_view text) {
  std::string out;
  for (char c : text.substr(0, kMaxPrinted)) out += (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) ? '?' : c;
  if (text.size() > kMaxPrinted) out += "...";
  return out;
}

Result<nlohmann::json> parse_json_object(std::string_view text, const std::string& source) {
  StrictParse strict;
  nlohmann::json document;
  try {
    document = nlohmann::json::parse(text.begin(), text.end(),
                                     [&strict](int depth, nlohmann::json::parse_event_t event, nlohmann::json& parsed) {
                                       return strict(depth, event, parsed);
                                     });
  } catch (const std::exception& error) {
    return Status(StatusCode::kCorrupt, fmt::format("{}: not valid JSON: {}", source, printable(error.what())));
  }
  if (strict.too_deep()) {
    return Status(StatusCode::kCorrupt, fmt::format("{}: JSON nested deeper than {} levels", source, kMaxDepth));
  }
  if (strict.repeated()) {
    return Status(StatusCode::kCorrupt,
                  fmt::format("{}: the name \"{}\" occurs twice", source, printable(*strict.repeated())));
  }
  if (!document.is_object()) {
    return Status(StatusCode::kCorrupt,
                  fmt::format("{}: expected a JSON object, found {}", source, document.type_name()));
  }
  return document;
}

}  // namespace lockstep::train
