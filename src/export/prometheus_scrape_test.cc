// A real Prometheus server scrapes the endpoint and answers queries about it.
#include <gtest/gtest.h>
#include <httplib.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "export/metrics_endpoint.h"
#include "store/test_run.h"

namespace lockstep::exports {
namespace {

constexpr const char* kPrometheus = "/usr/bin/prometheus";

// Free at the moment of asking: Prometheus cannot choose one by itself.
int free_port() {
  const int probe = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  EXPECT_EQ(bind(probe, reinterpret_cast<sockaddr*>(&address), length), 0);
  EXPECT_EQ(getsockname(probe, reinterpret_cast<sockaddr*>(&address), &length), 0);
  close(probe);
  return ntohs(address.sin_port);
}

class PrometheusServer {
 public:
  PrometheusServer(const std::filesystem::path& folder, int scraped_port) : port_(free_port()) {
    const std::filesystem::path config = folder / "prometheus.yml";
    std::ofstream(config) << "global: {scrape_interval: 1s}\nscrape_configs:\n  - job_name: lockstep\n"
                          << "    static_configs: [{targets: ['127.0.0.1:" << scraped_port << "']}]\n";
    const std::string config_flag = "--config.file=" + config.string();
    const std::string data_flag = "--storage.tsdb.path=" + (folder / "tsdb").string();
    const std::string listen_flag = "--web.listen-address=127.0.0.1:" + std::to_string(port_);
    process_ = fork();
    if (process_ == 0) {
      (void)!freopen((folder / "prometheus.log").c_str(), "w", stderr);
      execl(kPrometheus, kPrometheus, config_flag.c_str(), data_flag.c_str(), listen_flag.c_str(), nullptr);
      _exit(127);
    }
  }
  ~PrometheusServer() {
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
  }

  // The value of the first series that the query finds, once there is one.
  std::string query(const std::string& expression) const {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (std::chrono::steady_clock::now() < deadline) {
      httplib::Client client("127.0.0.1", port_);
      const httplib::Result answer = client.Get("/api/v1/query", httplib::Params{{"query", expression}}, {});
      if (answer && answer->status == 200) {
        const nlohmann::json found = nlohmann::json::parse(answer->body)["data"]["result"];
        if (!found.empty()) return found[0]["value"][1];
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
    }
    return "no answer";
  }

 private:
  int port_;
  pid_t process_;
};

TEST(PrometheusScrape, ARealServerStoresWhatTheEndpointShows) {
  if (access(kPrometheus, X_OK) != 0) GTEST_SKIP() << "no Prometheus server on this machine (Debian: prometheus)";
  MetricsOptions options;
  options.run = "r1";
  Result<std::shared_ptr<MetricsEndpoint>> endpoint = MetricsEndpoint::start(options);
  ASSERT_TRUE(endpoint.has_value()) << endpoint.error().message();
  const Step step = store::make_step(41, 3);
  (*endpoint)->on_step(step, store::make_stats(step));
  (*endpoint)->on_finding({"a", "sync.missing", {1}, 1, 2, Certainty::kCertain, 1, {}, "{}", "m", "r"});

  const store::TempFolder temp;
  const PrometheusServer server(temp.path(), (*endpoint)->port());
  EXPECT_EQ(server.query(R"(lockstep_step{run="r1"})"), "41");
  EXPECT_EQ(server.query(R"(lockstep_rank_norm{rank="2"})"), "3");
  EXPECT_EQ(server.query(R"(sum by (cause) (lockstep_findings{certainty="certain"}))"), "1");
  EXPECT_EQ(server.query("lockstep_token_loss"), "NaN") << "no verdict";
}

}  // namespace
}  // namespace lockstep::exports
