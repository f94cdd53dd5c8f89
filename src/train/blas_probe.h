// Whether libtorch's matrix product is a fast one. Debian's libtorch uses whatever BLAS the system offers, and the
// default (netlib's reference) is some fifty times slower than OpenBLAS: training then looks broken, and nothing says
// why.
#pragma once

#include <optional>
#include <string>

namespace lockstep::train {

// GFLOP/s of a fp32 product of 256 x 256 matrices on one thread, best of a few; takes a few milliseconds when fast.
double matrix_product_gflops();

// One line for the user when `gflops` is what only a reference BLAS gives; nothing otherwise.
std::optional<std::string> slow_blas_advice(double gflops);

}  // namespace lockstep::train
