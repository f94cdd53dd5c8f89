// The one JSON shape of findings. Its fields are a stable interface: add, never rename.
#include "detect/symptom.h"
#include "lockstep/diagnosis.h"

namespace lockstep {

std::string findings_json(std::string_view run, std::uint32_t workers, std::uint64_t steps,
                          std::span<const Finding> findings) {
  using detect::Json;
  Json list = Json::array();
  for (const Finding& finding : findings) {
    Json evidence = Json::parse(finding.evidence, nullptr, false);
    if (!evidence.is_object()) evidence = Json::object();
    list.push_back({{"cause", finding.cause},
                    {"ranks", finding.ranks},
                    {"first_step", finding.first_step},
                    {"last_step", finding.last_step},
                    {"certainty", to_string(finding.certainty)},
                    {"confidence", finding.confidence},
                    {"parameters", finding.parameters},
                    {"evidence", std::move(evidence)},
                    {"message", finding.message},
                    {"remedy", finding.remedy}});
  }
  const Json out = {
      {"version", 1}, {"run", run}, {"workers", workers}, {"steps", steps}, {"findings", std::move(list)}};
  return out.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace lockstep
