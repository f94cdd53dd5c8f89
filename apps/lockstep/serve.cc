// lockstep serve: the live dashboard of one or more runs.
#include <fmt/format.h>
#include <signal.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "commands.h"
#include "export/metrics_endpoint.h"
#include "output.h"
#include "report/server.h"
#include "store/run_reader.h"

namespace lockstep::app {
namespace {

std::atomic<bool> stop_serving{false};

struct ServeOptions {
  std::vector<std::string> paths;
  report::ServerOptions server;
  int metrics_port = -1;
};

// Feeds the Prometheus endpoint from the first run until the server stops.
Result<std::shared_ptr<exports::MetricsEndpoint>> start_metrics(const ServeOptions& options) {
  exports::MetricsOptions metrics;
  metrics.host = options.server.host;
  metrics.port = options.metrics_port;
  metrics.run = options.paths.front();
  return exports::MetricsEndpoint::start(metrics);
}

int run_serve(ServeOptions options) {
  options.server.paths.assign(options.paths.begin(), options.paths.end());
  if (options.server.token.empty()) {
    if (const char* token = std::getenv("LOCKSTEP_TOKEN")) options.server.token = token;
  }
  Result<std::unique_ptr<report::Server>> server = report::Server::start(options.server);
  if (!server) return fail(server.error());
  fmt::print("{}        (Ctrl-C ends)\n", (*server)->url());

  std::shared_ptr<exports::MetricsEndpoint> metrics;
  std::optional<store::RunReader> reader;
  if (options.metrics_port >= 0) {
    Result<std::shared_ptr<exports::MetricsEndpoint>> endpoint = start_metrics(options);
    if (!endpoint) return fail(endpoint.error());
    metrics = *endpoint;
    fmt::print("http://{}:{}/metrics\n", options.server.host, metrics->port());
    Result<store::RunReader> opened = store::RunReader::open(options.paths.front());
    if (!opened) return fail(opened.error());
    reader.emplace(std::move(*opened));
  }
  std::fflush(stdout);
  struct sigaction action {};
  action.sa_handler = [](int) { stop_serving = true; };
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
  auto next_follow = std::chrono::steady_clock::now();
  while (!stop_serving) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    if (!metrics || std::chrono::steady_clock::now() < next_follow) continue;
    if (Status status = metrics->follow(*reader); !status) fmt::print(stderr, "lockstep: {}\n", status.message());
    next_follow = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  }
  (*server)->stop();
  return kClean;
}

}  // namespace

void add_serve(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<ServeOptions>();
  CLI::App* command = app.add_subcommand("serve", "The live dashboard of one or more runs, in a browser");
  command->footer("Example: lockstep serve runs/x        (loopback only; elsewhere --host needs --token)");
  command->add_option("RUN", options->paths, "run folders, or folders of run folders")->required();
  command->add_option("--host", options->server.host, "address to listen on")->capture_default_str();
  command->add_option("--port", options->server.port, "port (0: any free one)")
      ->default_val(8377)
      ->check(CLI::Range(0, 65535));
  command->add_option("--token", options->server.token, "what readers must show; or the variable LOCKSTEP_TOKEN");
  command->add_option("--allow-host", options->server.allowed_hosts, "further names by which readers call this server");
  command
      ->add_option("--metrics-port", options->metrics_port, "also a Prometheus endpoint on this port (0: any free one)")
      ->check(CLI::Range(0, 65535));
  command->callback([options, &exit_code] { exit_code = run_serve(*options); });
}

}  // namespace lockstep::app
