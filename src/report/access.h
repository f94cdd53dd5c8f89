// Who may ask the server: the Host header must be one of ours (against DNS rebinding), and where a token is set, it
// must be shown.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lockstep/status.h"

namespace lockstep::report {

bool is_loopback(std::string_view host);  // localhost, 127.x.y.z, ::1

class Access {
 public:
  // Refuses a non-loopback host without a token, and a token that could not travel in a cookie.
  static Result<Access> create(const std::string& host, const std::string& token,
                               const std::vector<std::string>& allowed_hosts);

  // `header`: "name", "name:port" or "[v6]:port". Ours are loopback names, the bound host, the allowed ones; and where
  // the server listens to other machines (then there is a token), this machine's name and any IP address: an address
  // cannot be rebound.
  bool host_allowed(std::string_view header) const;

  bool needs_token() const { return !token_.empty(); }
  // True when one of them holds the token. Takes the same time for every wrong one.
  bool authorized(std::string_view authorization, std::string_view query_token, std::string_view cookies) const;
  bool token_matches(std::string_view candidate) const;
  // The value of Set-Cookie for a reader who has shown the token.
  std::string cookie() const;

 private:
  bool open_ = false;  // listens beyond loopback
  std::string token_;
  std::vector<std::string> hosts_;
};

}  // namespace lockstep::report
