// lockstep doctor: what was built in, what this machine has.
#include <fmt/format.h>

#include <thread>

#include "commands.h"
#include "lockstep/digest.h"
#include "lockstep/record.h"
#include "output.h"

namespace lockstep::app {
namespace {

#ifdef LOCKSTEP_HAVE_TORCH
constexpr bool kTorch = true;
#else
constexpr bool kTorch = false;
#endif
#ifdef LOCKSTEP_HAVE_MPI
constexpr bool kMpi = true;
#else
constexpr bool kMpi = false;
#endif

int run_doctor(const Output& output) {
  // A digest of known content: the one thing that every other part relies on.
  const std::vector<float> values = {3, -4};
  const Segment segment{0, 0, values.data(), values.size(), DType::kFloat32};
  const Result<Digest> check = digest(std::span(&segment, 1));
  const bool healthy = check && check->sum_squares == 25 && check->max_abs == 4;

  const auto built = [](bool in) { return in ? "built in" : "not built in"; };
  output.print(fmt::format("lockstep {}\n", LOCKSTEP_VERSION_STRING));
  output.print(fmt::format("  digest          {} ({})\n", digest_isa(), healthy ? "works" : "GIVES WRONG RESULTS"));
  output.print(fmt::format("  cores           {}\n", std::thread::hardware_concurrency()));
  output.print(fmt::format("  record          version {}, {} bytes at k = {}\n", kRecordVersion,
                           packed_size(RecordLayout{}), RecordLayout{}.k));
  output.print(fmt::format("  libtorch, c10d  {}\n", built(kTorch)));
  output.print(fmt::format("  MPI             {}\n", built(kMpi)));
  const nlohmann::json json = {{"version", 1},
                               {"lockstep", LOCKSTEP_VERSION_STRING},
                               {"isa", digest_isa()},
                               {"digest_works", healthy},
                               {"cores", std::thread::hardware_concurrency()},
                               {"record_version", kRecordVersion},
                               {"torch", kTorch},
                               {"mpi", kMpi}};
  return output.write_json(json) && healthy ? kClean : kFailure;
}

}  // namespace

void add_doctor(CLI::App& app, int& exit_code) {
  auto output = std::make_shared<Output>();
  CLI::App* command = app.add_subcommand("doctor", "What was built in and what this machine has");
  command->footer("Example: lockstep doctor");
  add_json_option(*command, *output);
  command->callback([output, &exit_code] { exit_code = run_doctor(*output); });
}

}  // namespace lockstep::app
