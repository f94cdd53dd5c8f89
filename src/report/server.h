// The live dashboard: the page, the runs and their changes over HTTP (docs/page_data.md, HTTP).
//
// Loopback by default. Only reads: there is no way to change a run through it, and no file but the runs of the given
// folders can be reached. Threads and event streams are bounded.
#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/status.h"

namespace lockstep::report {

struct ServerOptions {
  std::vector<std::filesystem::path> paths;  // run folders, or folders of run folders
  std::string host = "127.0.0.1";            // others need a token
  int port = 0;                              // 0: any free one
  std::string token;
  std::vector<std::string> allowed_hosts;         // further names by which readers may call this server
  std::chrono::milliseconds poll_interval{1000};  // also the shortest time between two events of a run
  std::size_t max_requests = 8;                   // at once
  std::size_t max_streams = 16;                   // of events, at once
};

class Server {
 public:
  // Listens when it returns. kUnavailable when the port is taken.
  static Result<std::unique_ptr<Server>> start(const ServerOptions& options);
  ~Server();  // stop()

  int port() const;
  std::string url() const;  // to open in a browser; with the token, where one is set
  void stop();              // ends streams and waits for running requests

 private:
  struct Impl;
  explicit Server(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::report
