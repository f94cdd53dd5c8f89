#include "train/adamw.h"

#include <ATen/Parallel.h>
#include <fmt/core.h>

#include <charconv>
#include <cmath>

#include "train/kernels.h"
#include "train/tensor_file.h"
#include "train/torch_guard.h"

namespace lockstep::train {
namespace {

constexpr std::int64_t kElementsPerTask = 1 << 15;
constexpr const char* kStepsKey = "lockstep.adamw.steps";

bool is_plain(const at::Tensor& tensor) {
  return tensor.defined() && tensor.is_cpu() && tensor.is_contiguous() && tensor.scalar_type() == at::kFloat;
}

Status refuse(const std::string& reason) {
  return {StatusCode::kInvalidArgument, "AdamW: " + reason};
}

bool is_fraction(double value) {
  return value >= 0 && value < 1;
}

std::int64_t parse_steps(const SafetensorsReader& file) {
  const auto found = file.metadata().find(kStepsKey);
  std::int64_t steps = -1;
  if (found == file.metadata().end()) return -1;
  const std::string& text = found->second;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), steps);
  return error == std::errc() && end == text.data() + text.size() ? steps : -1;
}

}  // namespace

double gradient_norm(const std::vector<at::Tensor>& gradients) {
  double total = 0;
  for (const at::Tensor& gradient : gradients) {
    if (!is_plain(gradient)) {
      const double norm = gradient.norm().item<double>();
      total += norm * norm;
      continue;
    }
    // Partial sums of fixed length, added in order: the norm's bits do not depend on the number of threads.
    const std::int64_t count = gradient.numel(), parts = (count + kElementsPerTask - 1) / kElementsPerTask;
    std::vector<double> sums(static_cast<std::size_t>(parts));
    at::parallel_for(0, parts, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t part = begin; part < end; ++part) {
        const std::int64_t first = part * kElementsPerTask;
        sums[static_cast<std::size_t>(part)] = kernels::sum_of_squares(
            gradient.data_ptr<float>() + first, static_cast<std::size_t>(std::min(kElementsPerTask, count - first)));
      }
    });
    for (double sum : sums) total += sum;
  }
  return std::sqrt(total);
}

double clip_factor(double norm, double max_norm) noexcept {
  if (max_norm <= 0) return 1.0;
  const double factor = max_norm / (norm + 1e-6);
  return factor < 1.0 || std::isnan(factor) ? factor : 1.0;
}

Result<AdamW> AdamW::make(const std::vector<Parameter>& parameters, const AdamWOptions& options) {
  if (!is_fraction(options.beta1) || !is_fraction(options.beta2) || !(options.eps >= 0) ||
      !(options.weight_decay >= 0)) {
    return refuse(fmt::format("betas {} and {}, eps {}, weight decay {}: expected betas in [0, 1), the others >= 0",
                              options.beta1, options.beta2, options.eps, options.weight_decay));
  }
  return guard_torch("make AdamW", [&]() -> Result<AdamW> {
    AdamW optimizer;
    optimizer.options_ = options;
    for (const Parameter& parameter : parameters) {
      if (!is_plain(parameter.tensor))
        return refuse(fmt::format("\"{}\" is not contiguous fp32 memory", parameter.name));
      const bool decays = options.decay_scope == DecayScope::kAll || parameter.tensor.dim() >= 2;
      optimizer.slots_.push_back({parameter, at::zeros(parameter.tensor.sizes(), at::kFloat),
                                  at::zeros(parameter.tensor.sizes(), at::kFloat), decays});
    }
    return optimizer;
  });
}

Status AdamW::step(const std::vector<at::Tensor>& gradients, double learning_rate, double gradient_scale) {
  if (gradients.size() != slots_.size()) {
    return refuse(fmt::format("{} gradients for {} parameters", gradients.size(), slots_.size()));
  }
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (!is_plain(gradients[i]) || gradients[i].sizes() != slots_[i].parameter.tensor.sizes()) {
      return refuse(
          fmt::format("gradient of \"{}\" is not contiguous fp32 memory of its shape", slots_[i].parameter.name));
    }
  }
  ++steps_;
  const auto t = static_cast<double>(steps_);
  kernels::AdamWFactors factors{};
  factors.gradient_scale = static_cast<float>(gradient_scale);
  factors.beta1 = static_cast<float>(options_.beta1);
  factors.beta2 = static_cast<float>(options_.beta2);
  factors.rest1 = static_cast<float>(1.0 - options_.beta1);
  factors.rest2 = static_cast<float>(1.0 - options_.beta2);
  factors.step_size = static_cast<float>(learning_rate / (1.0 - std::pow(options_.beta1, t)));
  factors.correction2 = static_cast<float>(std::sqrt(1.0 - std::pow(options_.beta2, t)));
  factors.eps = static_cast<float>(options_.eps);
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    Slot& slot = slots_[i];
    factors.decay = static_cast<float>(slot.decays ? 1.0 - learning_rate * options_.weight_decay : 1.0);
    const float* gradient = gradients[i].data_ptr<float>();
    float* parameter = slot.parameter.tensor.data_ptr<float>();
    float* mean = slot.mean.data_ptr<float>();
    float* square = slot.mean_square.data_ptr<float>();
    at::parallel_for(0, gradients[i].numel(), kElementsPerTask, [&](std::int64_t begin, std::int64_t end) {
      kernels::adamw_step(factors, static_cast<std::size_t>(end - begin), gradient + begin, parameter + begin,
                          mean + begin, square + begin);
    });
    slot.parameter.tensor.unsafeGetTensorImpl()->bump_version();  // autograd must notice, as after any in-place change
  }
  return Status::ok();
}

std::vector<NamedTensor> AdamW::state() const {
  std::vector<NamedTensor> out;
  for (const Slot& slot : slots_) {
    out.emplace_back("exp_avg." + slot.parameter.name, slot.mean);
    out.emplace_back("exp_avg_sq." + slot.parameter.name, slot.mean_square);
  }
  return out;
}

Status AdamW::save(const std::filesystem::path& path) const {
  return write_tensors(path, state(), {{kStepsKey, fmt::format("{}", steps_)}});
}

Status AdamW::load(const std::filesystem::path& path) {
  auto file = SafetensorsReader::open(path);
  if (!file) return file.error();
  const std::int64_t steps = parse_steps(*file);
  if (steps < 0)
    return {StatusCode::kCorrupt, fmt::format("{}: not an AdamW state: no \"{}\"", path.string(), kStepsKey)};
  const auto current = state();
  if (file->tensors().size() != current.size()) {
    return {StatusCode::kCorrupt, fmt::format("{}: {} tensors, this optimizer has {}", path.string(),
                                              file->tensors().size(), current.size())};
  }
  std::vector<at::Tensor> loaded;
  for (const auto& [name, tensor] : current) {
    const TensorInfo* info = file->find(name);
    if (info == nullptr || info->dtype != TensorDtype::kF32 || at::IntArrayRef(info->shape) != tensor.sizes()) {
      return {StatusCode::kCorrupt,
              fmt::format("{}: \"{}\" is missing or not of this model's shape", path.string(), name)};
    }
    auto read = read_tensor(*file, *info);
    if (!read) return read.error();
    loaded.push_back(std::move(*read));
  }
  return guard_torch("load AdamW's state", [&]() -> Status {
    for (std::size_t i = 0; i < current.size(); ++i) at::Tensor(current[i].second).copy_(loaded[i]);
    steps_ = steps;
    return Status::ok();
  });
}

}  // namespace lockstep::train
