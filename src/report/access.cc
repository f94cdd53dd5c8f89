#include "report/access.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>

namespace lockstep::report {
namespace {

constexpr std::string_view kCookieName = "lockstep_token=";
constexpr std::size_t kMinTokenLength = 8;

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), [](unsigned char c) { return std::tolower(c); });
  return out;
}

// The name in a Host header, without brackets and port.
std::string host_name(std::string_view header) {
  if (header.starts_with('[')) {
    const std::size_t end = header.find(']');
    return end == std::string_view::npos ? "" : lower(header.substr(1, end - 1));
  }
  const std::size_t colon = header.rfind(':');
  return lower(colon == std::string_view::npos ? header : header.substr(0, colon));
}

bool is_address(const std::string& host) {
  std::array<unsigned char, sizeof(in6_addr)> ignored{};
  return inet_pton(AF_INET, host.c_str(), ignored.data()) == 1 ||
         inet_pton(AF_INET6, host.c_str(), ignored.data()) == 1;
}

std::string machine_name() {
  std::array<char, 256> name{};
  (void)gethostname(name.data(), name.size() - 1);
  return lower(name.data());
}

}  // namespace

bool is_loopback(std::string_view host) {
  const std::string name = lower(host);
  return name == "localhost" || name == "::1" || (name.starts_with("127.") && is_address(name));
}

Result<Access> Access::create(const std::string& host, const std::string& token,
                              const std::vector<std::string>& allowed_hosts) {
  Access access;
  access.open_ = !is_loopback(host);
  access.token_ = token;
  if (access.open_ && token.empty()) {
    return Status(StatusCode::kInvalidArgument,
                  fmt::format("serving on {} lets other machines in: give a token, or serve on 127.0.0.1", host));
  }
  const bool plain = std::all_of(token.begin(), token.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '.' || c == '_' || c == '~';
  });
  if (!token.empty() && (!plain || token.size() < kMinTokenLength)) {
    return Status(StatusCode::kInvalidArgument,
                  fmt::format("the token must be at least {} letters, digits or -._~", kMinTokenLength));
  }
  access.hosts_.push_back(lower(host));
  for (const std::string& allowed : allowed_hosts) access.hosts_.push_back(lower(allowed));
  if (access.open_) access.hosts_.push_back(machine_name());
  return access;
}

bool Access::host_allowed(std::string_view header) const {
  const std::string name = host_name(header);
  if (name.empty()) return false;
  if (is_loopback(name) || (open_ && is_address(name))) return true;
  return std::find(hosts_.begin(), hosts_.end(), name) != hosts_.end();
}

bool Access::token_matches(std::string_view candidate) const {
  if (candidate.size() != token_.size()) return false;
  unsigned char difference = 0;
  for (std::size_t i = 0; i < token_.size(); ++i) {
    difference |= static_cast<unsigned char>(candidate[i]) ^ static_cast<unsigned char>(token_[i]);
  }
  return difference == 0;
}

bool Access::authorized(std::string_view authorization, std::string_view query_token, std::string_view cookies) const {
  if (!needs_token()) return true;
  constexpr std::string_view kBearer = "Bearer ";
  if (authorization.starts_with(kBearer) && token_matches(authorization.substr(kBearer.size()))) return true;
  if (token_matches(query_token)) return true;
  while (!cookies.empty()) {
    const std::size_t end = std::min(cookies.find(';'), cookies.size());
    std::string_view cookie = cookies.substr(0, end);
    while (cookie.starts_with(' ')) cookie.remove_prefix(1);
    if (cookie.starts_with(kCookieName) && token_matches(cookie.substr(kCookieName.size()))) return true;
    cookies.remove_prefix(std::min(end + 1, cookies.size()));
  }
  return false;
}

std::string Access::cookie() const {
  return fmt::format("{}{}; HttpOnly; SameSite=Strict; Path=/", kCookieName, token_);
}

}  // namespace lockstep::report
