// A study on disk: summary.json, steps.csv, and one folder per arm.
//
//   OUT/summary.json        the result (study_json.h), written last and whole
//   OUT/steps.csv           every step and rank of every run, in the order of the plan
//   OUT/S1-1-sharded/       the arm: metrics.csv with one line per seed, and the run of the first base seed
//   OUT/S1-1-sharded/seed-43/   the run of another base seed
// What a run folder holds beside that is up to the observers that a caller attaches.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include "lockstep/status.h"
#include "train/study.h"

namespace lockstep::train {

class StudyFiles {
 public:
  // Makes the folder, or clears what an earlier study left in it. A folder with anything else in it is refused.
  static Result<StudyFiles> create(const std::filesystem::path& folder);

  std::filesystem::path run_folder(const StudyRunInfo& info) const;
  // Appends the run's steps to steps.csv and its line to the arm's metrics.csv.
  Status add(const StudyRun& run);
  // Puts steps.csv and summary.json in place.
  Status finish(const std::string& summary);

 private:
  explicit StudyFiles(std::filesystem::path folder);
  std::filesystem::path folder_;
  std::ofstream steps_;  // into steps.csv.part
};

}  // namespace lockstep::train
