#include "report/server.h"

#include <fmt/format.h>
#include <httplib.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <thread>

#include "report/access.h"
#include "report/bounded_pool.h"
#include "report/html.h"
#include "report/json_values.h"
#include "report/page_data.h"
#include "report/run_catalog.h"
#include "report/run_watch.h"
#include "store/run_reader.h"

namespace lockstep::report {
namespace {

using httplib::Request;
using httplib::Response;
using std::chrono::milliseconds;

constexpr const char* kJson = "application/json; charset=utf-8";
constexpr milliseconds kKeepAlive{10'000};  // between comment lines of an event stream: the contract says 15 s at most

int http_status(StatusCode code) {
  switch (code) {
    case StatusCode::kInvalidArgument:
      return 400;
    case StatusCode::kUnavailable:
      return 404;
    case StatusCode::kFailedPrecondition:
      return 403;
    default:
      return 500;
  }
}

void answer_error(Response& response, int http, const Status& status) {
  const json body = {{"version", 1}, {"error", {{"code", to_string(status.code())}, {"message", status.message()}}}};
  response.status = http;
  response.set_content(to_text(body), kJson);
}

void answer_error(Response& response, const Status& status) {
  answer_error(response, http_status(status.code()), status);
}

// A number from the query, or `otherwise` when it is absent.
Result<std::uint64_t> query_number(const Request& request, const char* name, std::uint64_t otherwise) {
  if (!request.has_param(name)) return otherwise;
  const std::string text = request.get_param_value(name);
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    return Status(StatusCode::kInvalidArgument, fmt::format("\"{}\" must be a whole number, not '{}'", name, text));
  }
  return value;
}

// A run of the list; one that cannot be read is left out, since the others can.
struct Listed {
  std::int64_t newest_ms = 0;
  json entry;
};

std::optional<Listed> list_entry(const CatalogEntry& entry) {
  Result<store::RunReader> reader = store::RunReader::open(entry.folder);
  if (!reader) return std::nullopt;
  Result<store::RunSummary> summary = reader->summary();
  if (!summary) return std::nullopt;
  const bool study = summary->steps == 0 && reader->document(store::kStudyDocument).value_or(std::nullopt).has_value();
  const std::int64_t newest = summary->updated_ms.value_or(summary->info.created_ms);
  json listed = {{"name", entry.name},
                 {"world", summary->info.world},
                 {"steps", summary->steps},
                 {"created", iso_time(summary->info.created_ms)},
                 {"updated", iso_time(newest)},
                 {"live", summary->live},
                 {"findings_count", summary->findings},
                 {"kind", study ? "study" : "run"}};
  return Listed{newest, std::move(listed)};
}

std::string event_text(const RunUpdate& update) {
  const json data = {{"version", 1}, {"run", update.run}, {"steps", update.steps}, {"findings_count", update.findings}};
  return fmt::format("event: update\ndata: {}\n\n", to_text(data));
}

// Not the library's default: that shares the port with another server silently.
void socket_options(socket_t socket) {
  const int on = 1;
  (void)setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
}

}  // namespace

struct Server::Impl {
  Impl(const ServerOptions& given, Access granted, RunCatalog runs)
      : options(given), access(std::move(granted)), catalog(std::move(runs)), watch(catalog, given.poll_interval) {}

  ServerOptions options;
  Access access;
  RunCatalog catalog;
  RunWatch watch;
  httplib::Server http;
  int port = 0;
  std::thread thread;
  std::atomic<bool> ended{false};

  void route();
  httplib::Server::HandlerResponse admit(const Request& request, Response& response);
  void page(const Request& request, Response& response);
  void runs(Response& response);
  void run(const Request& request, Response& response);
  void events(Response& response);
};

httplib::Server::HandlerResponse Server::Impl::admit(const Request& request, Response& response) {
  using Outcome = httplib::Server::HandlerResponse;
  if (!access.host_allowed(request.get_header_value("Host"))) {
    answer_error(response, 403,
                 {StatusCode::kFailedPrecondition,
                  "this server does not answer to that host name: use the address it printed, or allow "
                  "the name when you start it"});
    return Outcome::Handled;
  }
  if (request.method != "GET" && request.method != "HEAD") {
    response.set_header("Connection", "close");  // the body, if any, is not read
    answer_error(response, 405, {StatusCode::kUnsupported, "this server only reads: use GET"});
    return Outcome::Handled;
  }
  if (!access.authorized(request.get_header_value("Authorization"), request.get_param_value("token"),
                         request.get_header_value("Cookie"))) {
    answer_error(response, 401,
                 {StatusCode::kFailedPrecondition,
                  "a token is needed: open the address with ?token=... that the server printed"});
    return Outcome::Handled;
  }
  return Outcome::Unhandled;
}

void Server::Impl::page(const Request& request, Response& response) {
  if (access.needs_token() && access.token_matches(request.get_param_value("token"))) {
    // The token goes from the address into a cookie, so that it stays out of history and referrers.
    response.set_header("Set-Cookie", access.cookie());
    response.set_redirect("./", 303);
    return;
  }
  response.set_content(dashboard_html(), "text/html; charset=utf-8");
}

void Server::Impl::runs(Response& response) {
  std::vector<Listed> listed;
  for (const CatalogEntry& entry : catalog.list()) {
    if (std::optional<Listed> one = list_entry(entry)) listed.push_back(std::move(*one));
  }
  std::stable_sort(listed.begin(), listed.end(),
                   [](const Listed& a, const Listed& b) { return a.newest_ms > b.newest_ms; });
  json body = {{"version", 1}, {"runs", json::array()}};
  for (Listed& one : listed) body["runs"].push_back(std::move(one.entry));
  response.set_content(to_text(body), kJson);
}

void Server::Impl::run(const Request& request, Response& response) {
  const std::string name = request.get_param_value("name");
  const std::optional<CatalogEntry> entry = catalog.find(name);
  if (!entry) {
    return answer_error(response,
                        {StatusCode::kUnavailable, fmt::format("run '{}' is not among the runs of this server", name)});
  }
  PageOptions page;
  page.name = name;
  const Result<std::uint64_t> points = query_number(request, "points", page.points);
  const Result<std::uint64_t> from = query_number(request, "from", page.range.from);
  const Result<std::uint64_t> to = query_number(request, "to", page.range.to);
  for (const auto* number : {&points, &from, &to}) {
    if (!*number) return answer_error(response, number->error());
  }
  page.points = *points;
  page.range = {*from, *to};
  Result<store::RunReader> reader = store::RunReader::open(entry->folder);
  if (!reader) return answer_error(response, reader.error());
  Result<std::string> document = page_document(*reader, page);
  if (!document) return answer_error(response, document.error());
  response.set_content(std::move(*document), kJson);
}

void Server::Impl::events(Response& response) {
  auto position = std::make_shared<std::uint64_t>(0);
  if (!watch.subscribe(options.max_streams, *position)) {
    response.set_header("Retry-After", "30");
    return answer_error(response, 503, {StatusCode::kUnavailable, "too many readers follow this server live"});
  }
  response.set_chunked_content_provider(
      "text/event-stream",
      [this, position, begun = std::make_shared<bool>(false)](std::size_t, httplib::DataSink& sink) {
        if (!*begun) {
          *begun = true;
          constexpr std::string_view kHello = ": lockstep\n\n";
          return sink.write(kHello.data(), kHello.size());
        }
        const std::vector<RunUpdate> updates = watch.wait(*position, kKeepAlive);
        if (watch.stopped()) {
          sink.done();
          return true;
        }
        std::string text = updates.empty() ? ": alive\n\n" : "";
        for (const RunUpdate& update : updates) text += event_text(update);
        return sink.is_writable() && sink.write(text.data(), text.size());
      },
      [this](bool) { watch.unsubscribe(); });
}

void Server::Impl::route() {
  http.set_socket_options(socket_options);
  http.set_read_timeout(5);
  http.set_write_timeout(10);
  http.set_keep_alive_timeout(2);
  http.set_payload_max_length(0);
  http.new_task_queue = [this] { return new BoundedPool(options.max_requests + options.max_streams); };
  http.set_default_headers({{"Cache-Control", "no-store"},
                            {"X-Content-Type-Options", "nosniff"},
                            {"X-Frame-Options", "DENY"},
                            {"Referrer-Policy", "no-referrer"}});
  http.set_pre_routing_handler([this](const Request& q, Response& r) { return admit(q, r); });
  http.set_exception_handler([](const Request&, Response& response, const std::exception_ptr&) {
    answer_error(response, 500, {StatusCode::kInternal, "the server met an exception of a foreign library"});
  });
  http.set_error_handler([](const Request& request, Response& response) {
    if (!response.body.empty()) return;
    answer_error(response, response.status,
                 {StatusCode::kUnavailable, fmt::format("nothing is at {}", request.path.substr(0, 200))});
  });
  http.Get("/", [this](const Request& q, Response& r) { page(q, r); });
  http.Get("/api/runs", [this](const Request&, Response& r) { runs(r); });
  http.Get("/api/run", [this](const Request& q, Response& r) { run(q, r); });
  http.Get("/api/events", [this](const Request&, Response& r) { events(r); });
}

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Server::~Server() {
  stop();
}

Result<std::unique_ptr<Server>> Server::start(const ServerOptions& options) {
  Result<Access> access = Access::create(options.host, options.token, options.allowed_hosts);
  if (!access) return access.error();
  Result<RunCatalog> catalog = RunCatalog::create(options.paths);
  if (!catalog) return catalog.error();
  auto impl = std::make_unique<Impl>(options, std::move(*access), std::move(*catalog));
  impl->route();
  impl->port = options.port;
  const bool bound = options.port == 0 ? (impl->port = impl->http.bind_to_any_port(options.host)) > 0
                                       : impl->http.bind_to_port(options.host, options.port);
  if (!bound) {
    return Status(StatusCode::kUnavailable,
                  fmt::format("cannot listen on {} port {}: it is taken, or not an address of this machine",
                              options.host, options.port));
  }
  impl->thread = std::thread([raw = impl.get()] {
    (void)raw->http.listen_after_bind();
    raw->ended = true;
  });
  // stop() does nothing before the library has begun to listen, so wait for that.
  while (!impl->http.is_running() && !impl->ended) std::this_thread::sleep_for(milliseconds(1));
  return std::unique_ptr<Server>(new Server(std::move(impl)));
}

int Server::port() const {
  return impl_->port;
}

std::string Server::url() const {
  const std::string& host = impl_->options.host;
  const std::string shown = host.find(':') != std::string::npos ? fmt::format("[{}]", host) : host;
  const std::string token = impl_->access.needs_token() ? "?token=" + impl_->options.token : "";
  return fmt::format("http://{}:{}/{}", shown, impl_->port, token);
}

void Server::stop() {
  impl_->watch.stop();
  impl_->http.stop();
  if (impl_->thread.joinable()) impl_->thread.join();
}

}  // namespace lockstep::report
