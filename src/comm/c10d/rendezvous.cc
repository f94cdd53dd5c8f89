#include "comm/c10d/rendezvous.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <optional>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

namespace lockstep::comm {
namespace {

std::optional<std::string> variable(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return value;
}

Result<std::uint32_t> number(const char* name, std::uint32_t least, std::uint32_t most) {
  const std::optional<std::string> text = variable(name);
  if (!text) {
    return Status(StatusCode::kInvalidArgument, fmt::format("{} is not set: start the processes with torchrun, or set "
                                                            "RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT",
                                                            name));
  }
  std::uint32_t value = 0;
  const char* end = text->data() + text->size();
  const auto [parsed, error] = std::from_chars(text->data(), end, value);
  if (error != std::errc() || parsed != end || value < least || value > most) {
    return Status(StatusCode::kInvalidArgument,
                  fmt::format("{} is \"{}\", a number from {} to {} is needed", name, *text, least, most));
  }
  return value;
}

Status failed(const Rendezvous& rendezvous, const char* what, const std::exception& error) {
  const std::string text = error.what();  // its first line; the rest is a stack trace of libtorch
  return {StatusCode::kUnavailable, fmt::format("rank {}: {} at {}:{}: {}", rendezvous.rank, what, rendezvous.host,
                                                rendezvous.port, text.substr(0, text.find('\n')))};
}

bool is_loopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

std::shared_ptr<::gloo::transport::Device> make_device(const Rendezvous& rendezvous) {
  if (const auto interface = variable("GLOO_SOCKET_IFNAME")) {
    return c10d::ProcessGroupGloo::createDeviceForInterface(*interface);
  }
  if (is_loopback(rendezvous.host)) return c10d::ProcessGroupGloo::createDeviceForHostname(rendezvous.host);
  return c10d::ProcessGroupGloo::createDefaultDevice();
}

}  // namespace

Result<Rendezvous> rendezvous_from_environment() {
  if (!variable("RANK") && !variable("WORLD_SIZE") && !variable("MASTER_ADDR") && !variable("MASTER_PORT")) {
    return Status(StatusCode::kUnavailable,
                  "RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT are not set: the process was not started by torchrun");
  }
  const Result<std::uint32_t> size = number("WORLD_SIZE", 1, std::numeric_limits<std::int32_t>::max());
  if (!size) return size.error();
  const Result<std::uint32_t> rank = number("RANK", 0, *size - 1);
  if (!rank) return rank.error();
  const Result<std::uint32_t> port = number("MASTER_PORT", 1, std::numeric_limits<std::uint16_t>::max());
  if (!port) return port.error();
  const std::optional<std::string> host = variable("MASTER_ADDR");
  if (!host) return Status(StatusCode::kInvalidArgument, "MASTER_ADDR is not set: the host of rank 0's store");
  Rendezvous rendezvous;
  rendezvous.rank = *rank;
  rendezvous.size = *size;
  rendezvous.host = *host;
  rendezvous.port = static_cast<std::uint16_t>(*port);
  rendezvous.hosted_by_agent = variable("TORCHELASTIC_USE_AGENT_STORE") == "True";
  if (rendezvous.hosted_by_agent) {
    rendezvous.prefix = "/worker/attempt_" + variable("TORCHELASTIC_RESTART_COUNT").value_or("0");
  }
  return rendezvous;
}

Result<c10::intrusive_ptr<c10d::Store>> connect_store(const Rendezvous& rendezvous, StoreRole role,
                                                      std::chrono::milliseconds timeout) {
  c10d::TCPStoreOptions options;
  options.port = rendezvous.port;
  options.isServer = role == StoreRole::kHost && rendezvous.rank == 0 && !rendezvous.hosted_by_agent;
  options.waitWorkers = false;
  options.timeout = timeout;
  try {
    c10::intrusive_ptr<c10d::Store> store = c10::make_intrusive<c10d::TCPStore>(rendezvous.host, options);
    if (rendezvous.prefix.empty()) return store;
    return c10::intrusive_ptr<c10d::Store>(c10::make_intrusive<c10d::PrefixStore>(rendezvous.prefix, store));
  } catch (const std::exception& error) {
    return failed(rendezvous, options.isServer ? "serving the c10d store" : "connecting to the c10d store", error);
  }
}

Result<c10::intrusive_ptr<c10d::ProcessGroup>> make_gloo_group(const Rendezvous& rendezvous,
                                                               const c10::intrusive_ptr<c10d::Store>& store,
                                                               const std::string& name,
                                                               std::chrono::milliseconds timeout) {
  try {
    auto options = c10d::ProcessGroupGloo::Options::create(timeout);
    options->devices.push_back(make_device(rendezvous));
    auto own_keys = c10::make_intrusive<c10d::PrefixStore>(name, store);
    return c10::intrusive_ptr<c10d::ProcessGroup>(c10::make_intrusive<c10d::ProcessGroupGloo>(
        own_keys, static_cast<int>(rendezvous.rank), static_cast<int>(rendezvous.size), options));
  } catch (const std::exception& error) {
    return failed(rendezvous, "making a gloo group", error);
  }
}

}  // namespace lockstep::comm
