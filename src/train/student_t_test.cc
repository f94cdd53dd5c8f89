#include "train/student_t.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numbers>

namespace lockstep::train {
namespace {

TEST(StudentT, AgreesWithTheClosedFormsOfOneTwoAndThreeDegrees) {
  for (double t : {1e-9, 0.01, 0.3, 1.0, 2.5, 12.0, 300.0, 1e6}) {
    const double one = 2 / std::numbers::pi * std::atan(1 / t);
    const double root = std::sqrt(2 + t * t);
    const double two = 2 / (root * (root + t));  // 1 - t/root without cancellation
    EXPECT_NEAR(student_t_two_sided(t, 1) / one, 1, 1e-12) << t;
    EXPECT_NEAR(student_t_two_sided(t, 2) / two, 1, 1e-12) << t;
    const double u = t / std::sqrt(3.0);
    const double three = 1 - 2 / std::numbers::pi * (u / (1 + u * u) + std::atan(u));
    EXPECT_NEAR(student_t_two_sided(t, 3), three, 1e-12) << t;
  }
}

TEST(StudentT, ApproachesTheNormalDistribution) {
  for (double t : {0.1, 1.0, 1.96, 4.0}) {
    EXPECT_NEAR(student_t_two_sided(t, 1e7), std::erfc(t / std::numbers::sqrt2), 1e-6) << t;
  }
}

TEST(StudentT, CriticalValuesAreThoseOfPrintedTables) {
  struct Row {
    double confidence, dof, value;
  };
  for (const Row& row :
       {Row{0.95, 1, 12.706204736432095}, Row{0.95, 2, 4.302652729911275}, Row{0.95, 3, 3.182446305284263},
        Row{0.95, 4, 2.7764451051977987}, Row{0.95, 10, 2.2281388519649385}, Row{0.95, 30, 2.0422724563012373},
        Row{0.99, 5, 4.032142983557536}, Row{0.999, 7, 5.407882520861012}}) {
    EXPECT_NEAR(student_t_critical(row.confidence, row.dof), row.value, 1e-9 * row.value) << row.dof;
  }
}

TEST(StudentT, CriticalValueAndTailInvertEachOther) {
  for (double dof : {0.5, 1.0, 3.0, 17.0, 500.0}) {
    for (double confidence : {0.01, 0.5, 0.9, 0.999, 0.999999}) {
      const double t = student_t_critical(confidence, dof);
      EXPECT_NEAR(student_t_two_sided(t, dof), 1 - confidence, 1e-12) << dof << " " << confidence;
    }
  }
}

TEST(StudentT, EdgesAreDefined) {
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(student_t_two_sided(0, 4), 1);
  EXPECT_EQ(student_t_two_sided(infinity, 4), 0);
  EXPECT_EQ(student_t_two_sided(-2.5, 4), student_t_two_sided(2.5, 4));
  EXPECT_GT(student_t_two_sided(1e30, 1), 0);  // the tail does not vanish early
  EXPECT_TRUE(std::isnan(student_t_two_sided(std::nan(""), 4)));
  EXPECT_TRUE(std::isnan(student_t_two_sided(1, 0)));
  EXPECT_EQ(student_t_critical(0, 4), 0);
  EXPECT_TRUE(std::isnan(student_t_critical(1, 4)));
}

TEST(IncompleteBeta, AgreesWithPolynomialsForWholeNumbers) {
  for (double x : {0.001, 0.2, 0.5, 0.9, 0.999}) {
    EXPECT_NEAR(incomplete_beta(1, 1, x, 1 - x), x, 1e-14);
    EXPECT_NEAR(incomplete_beta(2, 1, x, 1 - x), x * x, 1e-14);
    EXPECT_NEAR(incomplete_beta(2, 2, x, 1 - x), x * x * (3 - 2 * x), 1e-14);
  }
}

}  // namespace
}  // namespace lockstep::train
