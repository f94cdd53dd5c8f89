// Student's t distribution, for intervals and tests over few seeds.
//
// Written out because the project has no statistics library: both functions rest on the regularised incomplete beta
// function. Accurate to about 1e-12 relative, tails included; tested against closed forms.
#pragma once

namespace lockstep::train {

// P(|T| >= |t|): the two-sided p-value. 1 at t = 0, 0 at infinity, NaN for NaN. dof > 0.
double student_t_two_sided(double t, double dof) noexcept;

// The t with P(|T| <= t) = confidence, for a confidence in [0, 1): 12.7 at 0.95 and one degree of freedom.
double student_t_critical(double confidence, double dof) noexcept;

// I_x(a, b) of the beta distribution. `y` is 1 - x, given apart because the caller often knows it without rounding.
double incomplete_beta(double a, double b, double x, double y) noexcept;

}  // namespace lockstep::train
