#include "comm/c10d/rendezvous.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace lockstep::comm {
namespace {

constexpr const char* kVariables[] = {
    "RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_USE_AGENT_STORE", "TORCHELASTIC_RESTART_COUNT"};

class RendezvousFromEnvironment : public testing::Test {
 protected:
  RendezvousFromEnvironment() {
    for (const char* variable : kVariables) unsetenv(variable);
  }
  ~RendezvousFromEnvironment() override {
    for (const char* variable : kVariables) unsetenv(variable);
  }
  static void set_all() {
    setenv("RANK", "3", 1);
    setenv("WORLD_SIZE", "8", 1);
    setenv("MASTER_ADDR", "node-0", 1);
    setenv("MASTER_PORT", "29500", 1);
  }
};

TEST_F(RendezvousFromEnvironment, ReadsTorchrunsVariables) {
  set_all();
  const auto rendezvous = rendezvous_from_environment();
  ASSERT_TRUE(rendezvous.has_value()) << rendezvous.error().message();
  EXPECT_EQ(rendezvous->rank, 3U);
  EXPECT_EQ(rendezvous->size, 8U);
  EXPECT_EQ(rendezvous->host, "node-0");
  EXPECT_EQ(rendezvous->port, 29500);
  EXPECT_FALSE(rendezvous->hosted_by_agent);
}

TEST_F(RendezvousFromEnvironment, ARestartedJobGetsKeysOfItsOwn) {
  set_all();
  setenv("TORCHELASTIC_USE_AGENT_STORE", "True", 1);
  setenv("TORCHELASTIC_RESTART_COUNT", "2", 1);
  const auto rendezvous = rendezvous_from_environment();
  ASSERT_TRUE(rendezvous.has_value());
  EXPECT_TRUE(rendezvous->hosted_by_agent);
  EXPECT_EQ(rendezvous->prefix, "/worker/attempt_2");
}

TEST_F(RendezvousFromEnvironment, AbsentIsNotMalformed) {
  EXPECT_EQ(rendezvous_from_environment().error().code(), StatusCode::kUnavailable);
}

TEST_F(RendezvousFromEnvironment, AMalformedVariableIsNamed) {
  for (const auto& [name, value] : {std::pair("RANK", "8"),
                                    {"RANK", "-1"},
                                    {"RANK", "1x"},
                                    {"WORLD_SIZE", "0"},
                                    {"MASTER_PORT", "70000"},
                                    {"MASTER_ADDR", ""}}) {
    set_all();
    setenv(name, value, 1);
    const auto rendezvous = rendezvous_from_environment();
    ASSERT_FALSE(rendezvous.has_value()) << name << "=" << value;
    EXPECT_EQ(rendezvous.error().code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(rendezvous.error().message().find(name), 0U) << rendezvous.error().message();
  }
}

TEST(ConnectStore, NobodyAtTheAddressIsAnErrorThatNamesIt) {
  Rendezvous rendezvous;
  rendezvous.rank = 1;
  rendezvous.size = 2;
  rendezvous.host = "127.0.0.1";
  rendezvous.port = 1;
  const auto store = connect_store(rendezvous, StoreRole::kGuest, std::chrono::milliseconds(100));
  ASSERT_FALSE(store.has_value());
  EXPECT_EQ(store.error().message().find("rank 1: connecting to the c10d store at 127.0.0.1:1: "), 0U)
      << store.error().message();
}

}  // namespace
}  // namespace lockstep::comm
