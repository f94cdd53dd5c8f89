// The newest step as Prometheus metrics, at http://HOST:PORT/metrics. docs/metrics_endpoint.md lists them.
//
// An observer of a monitor inside training, or fed from a stored run by follow(). Aggregates over the ranks are always
// there; the series of single ranks only up to a number of ranks, since each is a time series that the server keeps.
// A metric without a verdict is NaN.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "lockstep/finding.h"
#include "lockstep/monitor.h"
#include "lockstep/status.h"
#include "store/run_reader.h"

namespace lockstep::exports {

struct MetricsOptions {
  std::string host = "127.0.0.1";
  int port = 0;  // 0: any free one
  std::string run;
  std::uint32_t max_ranks = 64;  // of larger worlds only aggregates
};

// Calls may come from any thread.
class MetricsEndpoint : public Observer {
 public:
  // Listens when it returns. kUnavailable when the port is taken.
  static Result<std::shared_ptr<MetricsEndpoint>> start(const MetricsOptions& options);
  ~MetricsEndpoint() override;

  void on_step(const Step& step, const StepStats& stats) noexcept override;
  void on_finding(const Finding& finding) noexcept;
  void on_health(const Health& health) noexcept;

  // Shows what the run has gained since the last call: for `serve`, about once a second.
  Status follow(store::RunReader& reader);

  int port() const;

 private:
  struct Impl;
  explicit MetricsEndpoint(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::exports
