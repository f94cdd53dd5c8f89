// The conformance suite over MPI. Started by mpirun (see CMakeLists.txt): every process is one rank and runs the same
// tests in the same order. Only rank 0 prints the course; a failure is printed by the rank that saw it.
#include "comm/mpi/transport.h"

#include <gtest/gtest.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "comm/conformance.h"

namespace lockstep::comm {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;

int world_rank() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

int thread_level() {
  int level = 0;
  MPI_Query_thread(&level);
  return level;
}

class Conformance : public testing::Test {
 public:
  explicit Conformance(Scenario scenario) : scenario_(scenario) {}

  void TestBody() override {
    if (thread_level() != MPI_THREAD_MULTIPLE) GTEST_SKIP() << "MPI without MPI_THREAD_MULTIPLE";
    auto transport = make_mpi_transport(MPI_COMM_WORLD);
    ASSERT_TRUE(transport.has_value()) << transport.error().message();
    run_scenario(scenario_, {**transport, [] { MPI_Barrier(MPI_COMM_WORLD); }});
    MPI_Barrier(MPI_COMM_WORLD);
  }

 private:
  Scenario scenario_;
};

void register_suite() {
  for (const Scenario& scenario : conformance_suite()) {
    testing::RegisterTest("Conformance", scenario.name, nullptr, nullptr, __FILE__, __LINE__,
                          [scenario]() -> Conformance* { return new Conformance(scenario); });
  }
}

TEST(MpiTransport, AThreadLevelBelowMultipleIsRefusedWithTheWayOut) {
  auto transport = make_mpi_transport(MPI_COMM_WORLD);
  if (thread_level() == MPI_THREAD_MULTIPLE) {
    ASSERT_TRUE(transport.has_value());
    EXPECT_TRUE((*transport)->close(Clock::now() + minutes(1)).is_ok());
    return;
  }
  ASSERT_FALSE(transport.has_value());
  EXPECT_EQ(transport.error().code(), StatusCode::kFailedPrecondition);
  EXPECT_NE(transport.error().message().find("MPI_Init_thread"), std::string::npos) << transport.error().message();
}

// The last rank dies in the middle of the run, without a word. Nobody may hang or fail; after its second missed
// deadline it costs nothing any more.
TEST(MpiTransport, KilledRankIsNamedAndTheOthersGoOn) {
  auto made = make_mpi_transport(MPI_COMM_WORLD);
  ASSERT_TRUE(made.has_value());
  Transport& transport = **made;
  const std::uint32_t victim = transport.size() - 1;
  const std::vector<std::byte> message(20000);
  for (std::uint64_t step = 0; step < 12; ++step) {
    if (step == 4) MPI_Barrier(MPI_COMM_WORLD);  // rank 0 has step 3, which dies with its sender otherwise
    if (step == 4 && transport.rank() == victim) raise(SIGKILL);
    const bool waits = step < 4 || step > 5;
    const auto gathered = transport.gather(step, message, Clock::now() + (waits ? minutes(10) : milliseconds(1000)));
    ASSERT_TRUE(gathered.has_value()) << gathered.error().message();
    if (transport.rank() != 0) continue;
    EXPECT_TRUE(transport.publish(message).is_ok());
    EXPECT_EQ(gathered->arrived[victim], step < 4) << step;
    EXPECT_EQ(gathered->status.is_ok(), step < 4) << gathered->status.message();
    for (std::uint32_t rank = 0; rank < victim; ++rank) EXPECT_TRUE(gathered->arrived[rank]) << rank << " " << step;
  }
  EXPECT_TRUE(transport.close(Clock::now() + std::chrono::seconds(10)).is_ok());
  // mpirun --enable-recovery hides exit codes, so CTest looks for this line.
  if (transport.rank() == 0 && !HasFailure()) std::puts("the others went on");
  std::fflush(nullptr);
  std::_Exit(HasFailure() ? 1 : 0);  // MPI_Finalize would wait for the dead
}

// Prints what a silent rank must not keep to itself.
class FailurePrinter : public testing::EmptyTestEventListener {
  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (!result.failed()) return;
    std::fprintf(stderr, "rank %d: %s:%d: %s\n", world_rank(), result.file_name() ? result.file_name() : "?",
                 result.line_number(), result.message());
  }
};

}  // namespace
}  // namespace lockstep::comm

int main(int argc, char** argv) {
  const char* level = std::getenv("LOCKSTEP_TEST_THREAD_LEVEL");
  const bool serialized = level != nullptr && std::string(level) == "serialized";
  int provided = 0;
  MPI_Init_thread(&argc, &argv, serialized ? MPI_THREAD_SERIALIZED : MPI_THREAD_MULTIPLE, &provided);
  testing::InitGoogleTest(&argc, argv);
  lockstep::comm::register_suite();
  if (lockstep::comm::world_rank() != 0) {
    testing::TestEventListeners& listeners = testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new lockstep::comm::FailurePrinter);
  }
  const int code = RUN_ALL_TESTS();
  MPI_Finalize();
  return code;
}
