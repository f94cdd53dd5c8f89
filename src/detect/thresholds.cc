#include "detect/thresholds.h"

#include <fmt/format.h>

#include <array>

namespace lockstep::detect {
namespace {

struct Field {
  std::string_view name;
  double Thresholds::*member;
  double low;
  double high;
};

constexpr std::array kFields = {
    Field{"false_alarms_per_step", &Thresholds::false_alarms_per_step, 1e-15, 0.1},
    Field{"min_loss_offset", &Thresholds::min_loss_offset, 0, 1e6},
    Field{"min_norm_factor", &Thresholds::min_norm_factor, 1, 1e12},
    Field{"min_token_factor", &Thresholds::min_token_factor, 1, 1e12},
    Field{"min_cosine_gap", &Thresholds::min_cosine_gap, 0, 2},
    Field{"natural_duplicates", &Thresholds::natural_duplicates, 0, 1},
    Field{"coverage_tolerance", &Thresholds::coverage_tolerance, 0, 1},
};

}  // namespace

Status set_threshold(Thresholds& thresholds, std::string_view name, double value) {
  std::string names;
  for (const Field& field : kFields) {
    names += fmt::format("{}{}", names.empty() ? "" : ", ", field.name);
    if (field.name != name) continue;
    if (!(value >= field.low && value <= field.high)) {
      return {StatusCode::kInvalidArgument,
              fmt::format("threshold {} = {}: must be from {} to {}", name, value, field.low, field.high)};
    }
    thresholds.*field.member = value;
    return Status::ok();
  }
  return {StatusCode::kInvalidArgument, fmt::format("there is no threshold '{}'; there are {}", name, names)};
}

}  // namespace lockstep::detect
