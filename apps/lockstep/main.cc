// The command line of Lockstep. One file per subcommand; this one only joins them.
#include <CLI/CLI.hpp>

#include "commands.h"

int main(int argc, char** argv) {
  CLI::App app{"Lockstep watches synchronous data-parallel training from the inside and says which worker did what.",
               "lockstep"};
  app.require_subcommand(1);
  int exit_code = lockstep::app::kClean;
  lockstep::app::add_commands(app, exit_code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int code = app.exit(error);
    return code == 0 ? lockstep::app::kClean : lockstep::app::kUsage;
  }
  return exit_code;
}
