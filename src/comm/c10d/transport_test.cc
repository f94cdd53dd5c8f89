// The conformance suite over c10d, with real processes: each test starts this program again, once per rank, with
// torchrun's variables; a child runs the part that LOCKSTEP_TEST_PART names and speaks only of failures.
#include "comm/c10d/transport.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "comm/c10d/rendezvous.h"
#include "comm/conformance.h"

namespace lockstep::comm {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr seconds kConnectPatience{60};

// ---- the children -------------------------------------------------------------------------------------------------

struct Process {
  Rendezvous rendezvous;
  c10::intrusive_ptr<c10d::Store> store;  // the host's connection; the transport gets another one
  std::int64_t meetings = 0;

  void meet() {
    const std::int64_t all = ++meetings * rendezvous.size;
    store->add("meet", 1);
    while (store->add("meet", 0) < all) std::this_thread::sleep_for(milliseconds(2));
  }
  c10::intrusive_ptr<c10d::Store> guest() const {
    return connect_store(rendezvous, StoreRole::kGuest, kConnectPatience).value();
  }
};

void run_suite_over_store(Process& process) {
  const auto guest = process.guest();
  int number = 0;
  for (const Scenario& scenario : conformance_suite()) {
    SCOPED_TRACE(scenario.name);
    auto transport = make_c10d_transport(guest, process.rendezvous.rank, process.rendezvous.size,
                                         "lockstep_" + std::to_string(number++));
    ASSERT_TRUE(transport.has_value()) << transport.error().message();
    run_scenario(scenario, {**transport, [&] { process.meet(); }});
    process.meet();
  }
}

void run_suite_over_group(Process& process) {
  auto group = make_gloo_group(process.rendezvous, process.store, "side", kConnectPatience);
  ASSERT_TRUE(group.has_value()) << group.error().message();
  for (const Scenario& scenario : conformance_suite()) {
    if (scenario.independent) continue;
    SCOPED_TRACE(scenario.name);
    auto transport = make_c10d_transport(*group, scenario.largest_bytes + 8192);
    ASSERT_TRUE(transport.has_value()) << transport.error().message();
    run_scenario(scenario, {**transport, [&] { process.meet(); }});
  }
  process.meet();
}

// The last rank dies in mid-run; after its second missed deadline it costs nothing any more.
void survive_a_killed_rank(Process& process) {
  auto made = make_c10d_transport(process.guest(), process.rendezvous.rank, process.rendezvous.size);
  ASSERT_TRUE(made.has_value());
  Transport& transport = **made;
  const std::uint32_t victim = transport.size() - 1;
  const std::vector<std::byte> message(20000);
  for (std::uint64_t step = 0; step < 12; ++step) {
    if (step == 4) process.meet();  // rank 0 has step 3, which may die with its sender otherwise
    if (step == 4 && transport.rank() == victim) raise(SIGKILL);
    const bool waits = step < 4 || step > 5;
    const auto gathered = transport.gather(step, message, Clock::now() + (waits ? minutes(10) : seconds(1)));
    ASSERT_TRUE(gathered.has_value()) << gathered.error().message();
    if (transport.rank() != 0) continue;
    EXPECT_TRUE(transport.publish(message).is_ok());
    EXPECT_EQ(gathered->arrived[victim], step < 4) << step;
    EXPECT_EQ(gathered->status.is_ok(), step < 4) << gathered->status.message();
    for (std::uint32_t rank = 0; rank < victim; ++rank) EXPECT_TRUE(gathered->arrived[rank]) << rank << " " << step;
  }
  EXPECT_TRUE(transport.close(Clock::now() + seconds(10)).is_ok());
}

// Rank 0 dies, and the store with it: the others get an error soon, and never hang.
void survive_a_killed_store(Process& process) {
  auto made = make_c10d_transport(process.guest(), process.rendezvous.rank, process.rendezvous.size);
  ASSERT_TRUE(made.has_value());
  Transport& transport = **made;
  ASSERT_TRUE(transport.gather(0, {}, Clock::now() + minutes(1)).has_value());
  process.meet();
  if (transport.rank() == 0) {
    std::this_thread::sleep_for(milliseconds(300));  // the others read the meeting's end from this process
    raise(SIGKILL);
  }
  Status error;
  for (std::uint64_t step = 1; error.is_ok() && step < 2000; ++step) {
    const auto sent = transport.gather(step, {}, Clock::now() + minutes(10));
    if (!sent) error = sent.error();
    std::this_thread::sleep_for(milliseconds(10));
  }
  EXPECT_EQ(error.code(), StatusCode::kUnavailable);
  EXPECT_NE(error.message().find("the c10d store"), std::string::npos) << error.message();
  EXPECT_TRUE(transport.close(Clock::now() + minutes(10)).is_ok());
}

struct Part {
  const char* name;
  void (*body)(Process& process);
};
constexpr Part kParts[] = {{"suite_over_store", run_suite_over_store},
                           {"suite_over_group", run_suite_over_group},
                           {"killed_rank", survive_a_killed_rank},
                           {"killed_store", survive_a_killed_store}};

class Child : public testing::Test {
 public:
  explicit Child(Part part) : part_(part) {}
  void TestBody() override {
    const auto rendezvous = rendezvous_from_environment();
    ASSERT_TRUE(rendezvous.has_value()) << rendezvous.error().message();
    const auto store = connect_store(*rendezvous, StoreRole::kHost, kConnectPatience);
    ASSERT_TRUE(store.has_value()) << store.error().message();
    Process process{*rendezvous, *store};
    part_.body(process);
  }

 private:
  Part part_;
};

class FailurePrinter : public testing::EmptyTestEventListener {
  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (!result.failed()) return;
    std::fprintf(stderr, "rank %s: %s:%d: %s\n", std::getenv("RANK"), result.file_name() ? result.file_name() : "?",
                 result.line_number(), result.message());
  }
};

int run_child(const char* wanted) {
  for (const Part& part : kParts) {
    if (std::strcmp(part.name, wanted) != 0) continue;
    testing::RegisterTest("Child", part.name, nullptr, nullptr, __FILE__, __LINE__,
                          [part]() -> Child* { return new Child(part); });
  }
  testing::GTEST_FLAG(filter) = "Child.*";
  testing::TestEventListeners& listeners = testing::UnitTest::GetInstance()->listeners();
  delete listeners.Release(listeners.default_result_printer());
  listeners.Append(new FailurePrinter);
  const int code = RUN_ALL_TESTS();
  return testing::UnitTest::GetInstance()->test_to_run_count() == 1 ? code : 2;
}

// ---- the parent ---------------------------------------------------------------------------------------------------

class Group {
 public:
  Group(const char* part, int size, std::uint16_t port, bool hosted_by_parent) {
    for (int rank = 0; rank < size; ++rank) {
      std::vector<std::string> environment = {"RANK=" + std::to_string(rank),
                                              "WORLD_SIZE=" + std::to_string(size),
                                              "MASTER_ADDR=127.0.0.1",
                                              "MASTER_PORT=" + std::to_string(port),
                                              "OMP_NUM_THREADS=1",
                                              std::string("LOCKSTEP_TEST_PART=") + part};
      if (hosted_by_parent) environment.emplace_back("TORCHELASTIC_USE_AGENT_STORE=True");
      pids_.push_back(spawn(std::move(environment)));
    }
  }
  ~Group() {
    for (const pid_t pid : pids_) {
      if (pid <= 0) continue;
      kill(pid, SIGKILL);
      waitpid(pid, nullptr, 0);
    }
  }

  // Raw wait status of the child, or nothing when it is still running after a long time.
  std::optional<int> wait(int rank) {
    pid_t& pid = pids_[static_cast<std::size_t>(rank)];
    for (const auto end = Clock::now() + minutes(4); Clock::now() < end;) {
      int status = 0;
      if (waitpid(pid, &status, WNOHANG) == pid) {
        pid = 0;
        return status;
      }
      std::this_thread::sleep_for(milliseconds(10));
    }
    return std::nullopt;
  }

 private:
  static pid_t spawn(std::vector<std::string> environment) {
    for (char** variable = environ; *variable != nullptr; ++variable) environment.emplace_back(*variable);
    std::vector<char*> pointers;
    for (std::string& variable : environment) pointers.push_back(variable.data());
    pointers.push_back(nullptr);
    char program[] = "/proc/self/exe";
    char* arguments[] = {program, nullptr};
    pid_t pid = 0;
    EXPECT_EQ(posix_spawn(&pid, program, nullptr, nullptr, arguments, pointers.data()), 0);
    return pid;
  }

  std::vector<pid_t> pids_;
};

c10::intrusive_ptr<c10d::TCPStore> serve_store() {
  c10d::TCPStoreOptions options;
  options.port = 0;  // any free one
  options.isServer = true;
  options.waitWorkers = false;
  return c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options);
}

std::uint16_t free_port() {
  return serve_store()->getPort();
}

void expect_exit_zero(Group& group, int rank) {
  const std::optional<int> status = group.wait(rank);
  ASSERT_TRUE(status.has_value()) << "rank " << rank << " hangs";
  EXPECT_TRUE(WIFEXITED(*status) && WEXITSTATUS(*status) == 0) << "rank " << rank << ", wait status " << *status;
}

void expect_killed(Group& group, int rank) {
  const std::optional<int> status = group.wait(rank);
  ASSERT_TRUE(status.has_value()) << "rank " << rank << " hangs";
  EXPECT_TRUE(WIFSIGNALED(*status) && WTERMSIG(*status) == SIGKILL) << "rank " << rank << ", wait status " << *status;
}

class C10dProcesses : public testing::TestWithParam<int> {};

TEST_P(C10dProcesses, PassTheConformanceSuiteOverTheStore) {
  const auto store = serve_store();
  Group group("suite_over_store", GetParam(), store->getPort(), true);
  for (int rank = 0; rank < GetParam(); ++rank) expect_exit_zero(group, rank);
}

TEST_P(C10dProcesses, PassTheConformanceSuiteOverAGlooGroup) {
  const auto store = serve_store();
  Group group("suite_over_group", GetParam(), store->getPort(), true);
  for (int rank = 0; rank < GetParam(); ++rank) expect_exit_zero(group, rank);
}

INSTANTIATE_TEST_SUITE_P(Ranks, C10dProcesses, testing::Values(1, 2, 3, 4, 8), testing::PrintToStringParamName());

TEST(C10dTransport, KilledRankIsNamedAndTheOthersGoOn) {
  const auto store = serve_store();
  Group group("killed_rank", 4, store->getPort(), true);
  for (int rank = 0; rank < 3; ++rank) expect_exit_zero(group, rank);
  expect_killed(group, 3);
}

TEST(C10dTransport, AStoreThatDiesIsAnErrorAndNoHang) {
  Group group("killed_store", 3, free_port(), false);
  expect_killed(group, 0);
  for (int rank = 1; rank < 3; ++rank) expect_exit_zero(group, rank);
}

class DeviceGroup : public c10d::ProcessGroup {
 public:
  DeviceGroup() : ProcessGroup(0, 2) {}
  const std::string getBackendName() const override { return "nccl"; }
};

TEST(C10dTransport, AGroupOnADeviceIsRefusedWithTheWayOut) {
  const c10::intrusive_ptr<c10d::ProcessGroup> group = c10::make_intrusive<DeviceGroup>();
  const auto transport = make_c10d_transport(group, 1024);
  ASSERT_FALSE(transport.has_value());
  EXPECT_EQ(transport.error().code(), StatusCode::kUnsupported);
  EXPECT_NE(transport.error().message().find("nccl"), std::string::npos) << transport.error().message();
  EXPECT_NE(transport.error().message().find("store"), std::string::npos) << transport.error().message();
}

TEST(C10dTransport, BadArgumentsAreRefused) {
  EXPECT_FALSE(make_c10d_transport(c10::intrusive_ptr<c10d::Store>(), 0, 1).has_value());
  EXPECT_FALSE(make_c10d_transport(c10::intrusive_ptr<c10d::ProcessGroup>(), 1024).has_value());
  EXPECT_FALSE(make_c10d_transport(c10::make_intrusive<c10d::HashStore>(), 2, 2).has_value());
}

// A job of thousands of steps must not fill the memory of whoever serves the store.
TEST(C10dTransport, TheStoreKeepsNoKeysOfPastSteps) {
  const auto store = serve_store();
  const auto connect = [&] {
    c10d::TCPStoreOptions options;
    options.port = store->getPort();
    options.waitWorkers = false;
    return c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options);
  };
  auto analyst = make_c10d_transport(connect(), 0, 2).value();
  auto worker = make_c10d_transport(connect(), 1, 2).value();
  const std::vector<std::byte> message(100);
  for (std::uint64_t step = 0; step < 300; ++step) {
    ASSERT_TRUE(worker->gather(step, message, Clock::now() + minutes(1)).has_value());
    const auto gathered = analyst->gather(step, message, Clock::now() + minutes(1));
    ASSERT_TRUE(gathered.has_value() && gathered->status.is_ok());
    ASSERT_TRUE(analyst->publish(message).is_ok());
  }
  EXPECT_TRUE(worker->close(Clock::now() + minutes(1)).is_ok());
  EXPECT_TRUE(analyst->close(Clock::now() + minutes(1)).is_ok());
  EXPECT_LE(store->getNumKeys(), 64 + 4) << "the ring of publications, the two counters and the store's own";
}

}  // namespace
}  // namespace lockstep::comm

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (const char* part = std::getenv("LOCKSTEP_TEST_PART")) return lockstep::comm::run_child(part);
  return RUN_ALL_TESTS();
}
