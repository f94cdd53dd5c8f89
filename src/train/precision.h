// In which arithmetic a model is trained.
#pragma once

namespace lockstep::train {

// kBf16 is what autocast does over fp32 weights: the linear layers multiply in bf16 and accumulate in fp32, while the
// residual stream, norms, attention scores, softmax and loss stay in fp32. Gradients of weights arrive in fp32.
enum class Precision { kFp32, kBf16 };

inline const char* to_string(Precision precision) noexcept {
  return precision == Precision::kBf16 ? "bf16" : "fp32";
}

}  // namespace lockstep::train
