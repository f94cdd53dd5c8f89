#include "train/blas_probe.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

namespace lockstep::train {
namespace {

TEST(BlasProbe, MeasuresSomethingAndLeavesTheThreadsAsTheyWere) {
  const int threads = at::get_num_threads();
  EXPECT_GT(matrix_product_gflops(), 0.0);
  EXPECT_EQ(at::get_num_threads(), threads);
}

TEST(BlasProbe, AdviceNamesThePackageAndOnlyWhenSlow) {
  EXPECT_FALSE(slow_blas_advice(50.0));
  ASSERT_TRUE(slow_blas_advice(2.4));
  EXPECT_NE(slow_blas_advice(2.4)->find("libopenblas0-openmp"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::train
