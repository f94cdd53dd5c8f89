// The table of subcommands. Adding one: its own file pair, one line in CMakeLists.txt, one row in commands.cc.
#pragma once

#include <CLI/CLI.hpp>

namespace lockstep::app {

// Exit codes that scripts rely on.
inline constexpr int kClean = 0;
inline constexpr int kFindings = 1;
inline constexpr int kUsage = 2;
inline constexpr int kFailure = 3;

// Registers every subcommand; the one that runs writes its exit code to `exit_code`.
void add_commands(CLI::App& app, int& exit_code);

// The subcommands, each in the file of its name.
void add_demo(CLI::App& app, int& exit_code);
void add_train(CLI::App& app, int& exit_code);  // only with libtorch
void add_study(CLI::App& app, int& exit_code);  // only with libtorch
void add_diagnose(CLI::App& app, int& exit_code);
void add_serve(CLI::App& app, int& exit_code);
void add_export(CLI::App& app, int& exit_code);
void add_report(CLI::App& app, int& exit_code);
void add_import(CLI::App& app, int& exit_code);
void add_compare(CLI::App& app, int& exit_code);
void add_top(CLI::App& app, int& exit_code);
void add_bench(CLI::App& app, int& exit_code);
void add_doctor(CLI::App& app, int& exit_code);

}  // namespace lockstep::app
