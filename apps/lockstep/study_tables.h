// The tables of `lockstep study`, for a terminal.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "lockstep/finding.h"
#include "train/study_analysis.h"

namespace lockstep::app {

// One table per reading: metrics down, settings across, each as mean and half width of its 95 % interval.
std::string setting_tables(const train::StudyOutcome& outcome, const train::StudyAnalysis& analysis);

// Per reading: how each metric moves between the settings.
std::string comparison_tables(const train::StudyOutcome& outcome, const train::StudyAnalysis& analysis);

// Predictions without free parameters beside their measurements; empty when there are none.
std::string oracle_table(const train::StudyAnalysis& analysis);

// What the diagnosis said of one run.
struct RunDiagnosis {
  std::string arm;  // its label
  std::vector<Finding> findings;
};

// Causes by arm: in how many of its runs, on which ranks, from which step on.
std::string diagnosis_table(const train::StudyOutcome& outcome, const std::vector<RunDiagnosis>& diagnoses);

// The text in lines of at most `width` characters, the last one ended too.
std::string wrapped(const std::string& text, std::size_t width);

}  // namespace lockstep::app
