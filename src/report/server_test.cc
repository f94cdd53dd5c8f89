#include "report/server.h"

#include <gtest/gtest.h>
#include <httplib.h>

#include <future>
#include <nlohmann/json.hpp>

#include "report/access.h"
#include "report/run_catalog.h"
#include "store/run_writer.h"
#include "store/test_run.h"

namespace lockstep::report {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;
using std::chrono::seconds;
using store::RunWriter;
using store::TempFolder;

class ServerTest : public testing::Test {
 protected:
  std::shared_ptr<RunWriter> make_run(const std::string& name, std::uint64_t steps) {
    store::RunInfo info;
    info.world = 2;
    std::shared_ptr<RunWriter> writer = *RunWriter::create(temp_.path() / "runs" / name, info);
    add_steps(*writer, 0, steps);
    return writer;
  }
  static void add_steps(RunWriter& writer, std::uint64_t from, std::uint64_t to) {
    for (std::uint64_t s = from; s < to; ++s) {
      const Step step = store::make_step(s, 2);
      writer.on_step(step, store::make_stats(step));
    }
    EXPECT_TRUE(writer.flush(seconds(30)).is_ok());
  }
  void serve(ServerOptions options = {}) {
    options.paths = {temp_.path() / "runs"};
    options.poll_interval = milliseconds(20);
    Result<std::unique_ptr<Server>> server = Server::start(options);
    ASSERT_TRUE(server.has_value()) << server.error().message();
    server_ = std::move(*server);
  }
  httplib::Result get(const std::string& path, const httplib::Headers& headers = {}) {
    httplib::Client client("127.0.0.1", server_->port());
    return client.Get(path, headers);
  }
  TempFolder temp_;
  std::unique_ptr<Server> server_;
};

TEST_F(ServerTest, ServesThePageTheListAndTheRuns) {
  (void)make_run("old run", 3);
  (void)make_run("b", 5);
  serve();
  const httplib::Result page = get("/");
  ASSERT_TRUE(page);
  EXPECT_EQ(page->status, 200);
  EXPECT_NE(page->body.find("<html"), std::string::npos);
  EXPECT_EQ(page->get_header_value("X-Content-Type-Options"), "nosniff");

  const httplib::Result list = get("/api/runs");
  EXPECT_EQ(list->get_header_value("Cache-Control"), "no-store");
  EXPECT_EQ(list->get_header_value("Content-Type"), "application/json; charset=utf-8");
  const json runs = json::parse(list->body)["runs"];
  ASSERT_EQ(runs.size(), 2U);
  EXPECT_EQ(runs[0]["name"], "b") << "newest first";
  EXPECT_EQ(runs[0]["steps"], 5);
  EXPECT_EQ(runs[0]["kind"], "run");

  const httplib::Result run = get("/api/run?name=old%20run&points=100");
  ASSERT_EQ(run->status, 200) << run->body;
  EXPECT_EQ(json::parse(run->body)["run"]["name"], "old run");
  const httplib::Result part = get("/api/run?name=b&from=1&to=2");
  EXPECT_EQ(json::parse(part->body)["series"]["step"], (json{1, 2}));
}

TEST_F(ServerTest, OnlyNamesOfTheListAreRuns) {
  (void)make_run("a", 1);
  std::filesystem::create_directories(temp_.path() / "secret");
  std::filesystem::copy(temp_.path() / "runs" / "a", temp_.path() / "secret" / "a");
  std::filesystem::create_directory_symlink(temp_.path() / "secret" / "a", temp_.path() / "runs" / "link");
  serve();
  for (const char* name : {"..%2Fsecret%2Fa", "%2E%2E/secret/a", "link", "", "a%00", "./a", "A"}) {
    const httplib::Result answer = get(std::string("/api/run?name=") + name);
    ASSERT_TRUE(answer) << name;
    EXPECT_EQ(answer->status, 404) << name << answer->body;
    EXPECT_EQ(json::parse(answer->body)["error"]["code"], "unavailable");
  }
  EXPECT_EQ(get("/../runs/a/run.sqlite")->status, 404);
  EXPECT_EQ(get("/api/run?name=a&points=many")->status, 400);
  EXPECT_EQ(get("/api/run?name=a&points=-1")->status, 400);
}

TEST_F(ServerTest, AForeignHostNameIsRefused) {
  (void)make_run("a", 1);
  ServerOptions options;
  options.allowed_hosts = {"dash.example"};
  serve(options);
  const std::string port = std::to_string(server_->port());
  EXPECT_EQ(get("/api/runs", {{"Host", "evil.example"}})->status, 403);
  EXPECT_EQ(get("/api/runs", {{"Host", "127.0.0.1.evil.example:" + port}})->status, 403);
  EXPECT_EQ(get("/", {{"Host", "192.0.2.7"}})->status, 403);
  EXPECT_EQ(get("/api/runs", {{"Host", "localhost:9999"}})->status, 200) << "a tunnel has a port of its own";
  EXPECT_EQ(get("/api/runs", {{"Host", "[::1]:" + port}})->status, 200);
  EXPECT_EQ(get("/api/runs", {{"Host", "DASH.example"}})->status, 200);
}

TEST_F(ServerTest, NothingCanBeWritten) {
  (void)make_run("a", 1);
  serve();
  for (const auto& method : {"post", "put", "delete", "patch", "options"}) {
    httplib::Client client("127.0.0.1", server_->port());
    httplib::Request request;
    request.method = method;
    for (char& c : request.method) c = static_cast<char>(std::toupper(c));
    request.path = "/api/run?name=a";
    const httplib::Result answer = client.send(request);
    ASSERT_TRUE(answer) << method;
    EXPECT_EQ(answer->status, 405) << method;
  }
}

TEST_F(ServerTest, ATokenOpensTheDoorInThreeWays) {
  (void)make_run("a", 1);
  ServerOptions options;
  options.token = "s3cret-token";
  serve(options);
  EXPECT_EQ(get("/api/runs")->status, 401);
  EXPECT_EQ(get("/")->status, 401);
  EXPECT_EQ(get("/api/runs?token=wrong-token1")->status, 401);
  EXPECT_EQ(get("/api/runs?token=s3cret-token")->status, 200);
  EXPECT_EQ(get("/api/runs", {{"Authorization", "Bearer s3cret-token"}})->status, 200);
  EXPECT_EQ(get("/api/runs", {{"Cookie", "x=1; lockstep_token=s3cret-token"}})->status, 200);
  EXPECT_EQ(get("/api/runs", {{"Cookie", "lockstep_token=s3cret-tokem"}})->status, 401);
  const httplib::Result entry = get("/?token=s3cret-token");
  EXPECT_EQ(entry->status, 303);
  EXPECT_EQ(entry->get_header_value("Location"), "./");
  const std::string cookie = entry->get_header_value("Set-Cookie");
  EXPECT_NE(cookie.find("HttpOnly"), std::string::npos);
  EXPECT_NE(cookie.find("SameSite=Strict"), std::string::npos);
  EXPECT_NE(server_->url().find("?token=s3cret-token"), std::string::npos);
}

TEST_F(ServerTest, OtherMachinesNeedAToken) {
  std::filesystem::create_directories(temp_.path() / "runs");
  ServerOptions options;
  options.paths = {temp_.path() / "runs"};
  options.host = "0.0.0.0";
  Result<std::unique_ptr<Server>> refused = Server::start(options);
  ASSERT_FALSE(refused.has_value());
  EXPECT_NE(refused.error().message().find("token"), std::string::npos);
  options.token = "short";
  EXPECT_FALSE(Server::start(options).has_value());
  options.token = "long enough but spaced";
  EXPECT_FALSE(Server::start(options).has_value());
}

TEST_F(ServerTest, ATakenPortAndAnAbsentFolderAreNamed) {
  std::filesystem::create_directories(temp_.path() / "runs");
  serve();
  ServerOptions options;
  options.paths = {temp_.path() / "runs"};
  options.port = server_->port();
  Result<std::unique_ptr<Server>> second = Server::start(options);
  ASSERT_FALSE(second.has_value());
  EXPECT_NE(second.error().message().find(std::to_string(options.port)), std::string::npos);
  options.paths = {temp_.path() / "absent"};
  EXPECT_EQ(Server::start(options).error().code(), StatusCode::kUnavailable);
}

TEST_F(ServerTest, EventsTellOfNewStepsAndStopEndsThem) {
  const std::shared_ptr<RunWriter> writer = make_run("live", 2);
  serve();
  std::mutex mutex;
  std::condition_variable arrived;
  std::string received;
  std::future<void> stream = std::async(std::launch::async, [&] {
    httplib::Client client("127.0.0.1", server_->port());
    client.set_read_timeout(seconds(60));
    (void)client.Get("/api/events", [&](const char* data, std::size_t size) {
      const std::lock_guard lock(mutex);
      received.append(data, size);
      arrived.notify_all();
      return true;
    });
  });
  const auto wait_for = [&](const std::string& text) {
    std::unique_lock lock(mutex);
    return arrived.wait_for(lock, seconds(60), [&] { return received.find(text) != std::string::npos; });
  };
  ASSERT_TRUE(wait_for(": lockstep\n\n"));
  add_steps(*writer, 2, 7);
  EXPECT_TRUE(wait_for(R"("steps":7)")) << received;
  EXPECT_TRUE(wait_for("event: update\ndata: {"));
  EXPECT_TRUE(wait_for(R"("run":"live")"));
  server_->stop();
  EXPECT_EQ(stream.wait_for(seconds(60)), std::future_status::ready);
}

TEST_F(ServerTest, EventStreamsAreBounded) {
  std::filesystem::create_directories(temp_.path() / "runs");
  ServerOptions options;
  options.max_streams = 1;
  serve(options);
  std::promise<void> begun;
  std::future<void> first = std::async(std::launch::async, [&] {
    httplib::Client client("127.0.0.1", server_->port());
    client.set_read_timeout(seconds(60));
    bool told = false;
    (void)client.Get("/api/events", [&](const char*, std::size_t) {
      if (!told) begun.set_value();
      told = true;
      return true;
    });
  });
  begun.get_future().wait();
  EXPECT_EQ(get("/api/events")->status, 503);
  EXPECT_EQ(get("/api/runs")->status, 200) << "requests go on beside the streams";
  server_->stop();
  first.wait();
}

TEST(Access, TellsLoopbackFromNamesThatLookLikeIt) {
  EXPECT_TRUE(is_loopback("LocalHost"));
  EXPECT_TRUE(is_loopback("127.0.0.2"));
  EXPECT_TRUE(is_loopback("::1"));
  EXPECT_FALSE(is_loopback("127.0.0.1.evil.example"));
  EXPECT_FALSE(is_loopback("0.0.0.0"));
}

TEST(Access, AnOpenServerAnswersToAddressesAndItsOwnName) {
  const Result<Access> access = Access::create("0.0.0.0", "s3cret-token", {});
  ASSERT_TRUE(access.has_value());
  EXPECT_TRUE(access->host_allowed("192.0.2.7:8080"));
  EXPECT_TRUE(access->host_allowed("[2001:db8::1]:8080"));
  EXPECT_FALSE(access->host_allowed("evil.example"));
  EXPECT_FALSE(access->host_allowed(""));
  EXPECT_FALSE(access->host_allowed("[::1"));
}

TEST(RunCatalog, EqualNamesOfTwoFoldersAreToldApart) {
  const TempFolder temp;
  for (const char* folder : {"a/run", "b/run", "b/other"}) {
    ASSERT_TRUE(RunWriter::create(temp.path() / folder, {}).has_value());
  }
  const Result<RunCatalog> catalog = RunCatalog::create({temp.path() / "a" / "run", temp.path() / "b"});
  ASSERT_TRUE(catalog.has_value());
  std::vector<std::string> names;
  for (const CatalogEntry& entry : catalog->list()) names.push_back(entry.name);
  EXPECT_EQ(names, (std::vector<std::string>{"run", "other", "b/run"}));
  EXPECT_EQ(catalog->find("b/run")->folder.parent_path().filename(), "b");
}

}  // namespace
}  // namespace lockstep::report
