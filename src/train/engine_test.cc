#include "train/engine.h"

#include <gtest/gtest.h>

namespace lockstep::train {
namespace {

TEST(Engine, NamesAreReadBack) {
  for (EngineKind kind : {EngineKind::kVirtual, EngineKind::kC10d, EngineKind::kMpi}) {
    EXPECT_EQ(parse_engine_kind(to_string(kind)).value(), kind);
  }
  EXPECT_NE(parse_engine_kind("nccl").error().message().find("virtual, c10d or mpi"), std::string::npos);
}

TEST(VirtualEngine, HoldsAllWorkersAndGivesEachOneTransport) {
  auto engine = make_virtual_engine(3).value();
  EXPECT_EQ(engine->world(), 3U);
  EXPECT_EQ(engine->local_ranks(), 3U);
  EXPECT_TRUE(engine->is_root());
  for (std::uint32_t rank = 0; rank < 3; ++rank) EXPECT_EQ(engine->make_transport(rank).value()->rank(), rank);
  EXPECT_FALSE(engine->make_transport(0).has_value()) << "taken";
  EXPECT_FALSE(engine->make_transport(3).has_value());
}

TEST(VirtualEngine, ZeroWorkersAreRefused) {
  EXPECT_FALSE(make_virtual_engine(0).has_value());
  EXPECT_FALSE(make_virtual_engine(kMaxVirtualWorkers + 1).has_value());
}

TEST(Engine, AgreementKeepsTheFirstFailuresWords) {
  auto engine = make_virtual_engine(2).value();
  EXPECT_TRUE(agree(*engine, Status::ok()).is_ok());
  const Status failed = agree(*engine, {StatusCode::kCorrupt, "weights are torn"});
  EXPECT_EQ(failed.code(), StatusCode::kCorrupt);
  EXPECT_EQ(failed.message(), "weights are torn");
}

}  // namespace
}  // namespace lockstep::train
