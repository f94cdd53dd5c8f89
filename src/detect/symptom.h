// A symptom: what one detector saw in one step. Diagnosis turns symptoms of one fault into one Finding.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "lockstep/finding.h"

namespace lockstep::detect {

using Json = nlohmann::ordered_json;
using Ranks = std::vector<std::uint32_t>;  // ascending

struct Symptom {
  const char* cause = "";
  Ranks ranks;
  std::uint64_t first_step = 0;
  Certainty certainty = Certainty::kCertain;
  double confidence = 1;
  std::vector<std::string> parameters;
  Json evidence = Json::object();
  std::string message;  // one sentence
  std::string remedy;   // empty: the cause's own (remedies.h)

  // True: the ranks of this step replace those of earlier steps, because evidence grows; false: they add up.
  bool ranks_are_current = false;
};

using Symptoms = std::vector<Symptom>;

}  // namespace lockstep::detect
