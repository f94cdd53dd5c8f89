// What subcommands print: aligned tables for people, JSON for scripts.
#pragma once

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "lockstep/status.h"

namespace lockstep::app {

// A table with right-aligned numbers; the first column is left-aligned. Columns are separated by two spaces.
class Table {
 public:
  explicit Table(std::vector<std::string> header) : header_(std::move(header)) {}
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  std::string text() const;

 private:
  std::vector<std::string> header_;
  std::vector<std::vector<std::string>> rows_;
};

// Where a subcommand's results go. With --json - only JSON is on standard output and the text goes to standard error.
class Output {
 public:
  std::string json_path;  // of --json; empty: none

  void print(const std::string& text) const;
  // Writes the document where --json says, if it says; false (with a message) when the file cannot be written. A file
  // is replaced only when the whole document was written.
  bool write_json(const nlohmann::json& document) const;
};

// Adds --json FILE to a subcommand.
void add_json_option(CLI::App& command, Output& output);

// Prints the reason to standard error and gives the exit code for it.
int fail(const Status& status);

// Four significant digits, no locale; "-" for no value.
std::string number(double value, int digits = 4);

}  // namespace lockstep::app
