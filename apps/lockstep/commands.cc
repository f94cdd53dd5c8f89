#include "commands.h"

namespace lockstep::app {

// One row per subcommand, in the order of --help.
void add_commands(CLI::App& app, int& exit_code) {
  add_demo(app, exit_code);
#ifdef LOCKSTEP_HAVE_TORCH
  add_train(app, exit_code);
  add_study(app, exit_code);
#endif
  add_diagnose(app, exit_code);
  add_report(app, exit_code);
  add_serve(app, exit_code);
  add_top(app, exit_code);
  add_compare(app, exit_code);
  add_import(app, exit_code);
  add_export(app, exit_code);
  add_bench(app, exit_code);
  add_doctor(app, exit_code);
}

}  // namespace lockstep::app
