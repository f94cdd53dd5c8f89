#include "train/model.h"

#include <ATen/CPUGeneratorImpl.h>
#include <fmt/core.h>

#include <algorithm>

#include "train/fused_layers.h"
#include "train/linear.h"
#include "train/torch_guard.h"

namespace lockstep::train {
namespace {

// Walks the parameters in the order in which parameter_specs lists them.
class Cursor {
 public:
  explicit Cursor(const std::vector<Parameter>& parameters) : parameters_(parameters) {}
  at::Tensor next() { return parameters_[position_++].tensor; }

 private:
  const std::vector<Parameter>& parameters_;
  std::size_t position_ = 0;
};

at::Tensor initial_value(const ParameterSpec& spec, const ModelConfig& config, at::Generator& generator,
                         at::ScalarType dtype) {
  if (spec.name.ends_with(".bias")) return at::zeros(spec.shape, dtype);
  if (spec.name.ends_with("norm.weight")) return at::ones(spec.shape, dtype);
  return at::normal(0.0, config.initializer_range, spec.shape, generator, at::TensorOptions(at::kFloat)).to(dtype);
}

}  // namespace

Result<CausalLm> CausalLm::make(const ModelConfig& config, std::uint64_t seed, at::ScalarType dtype) {
  if (Status status = check_config(config); !status) return status;
  return guard_torch("make a model", [&]() -> Result<CausalLm> {
    at::Generator generator = at::detail::createCPUGenerator(seed);
    std::vector<at::Tensor> tensors;
    for (const ParameterSpec& spec : parameter_specs(config)) {
      tensors.push_back(initial_value(spec, config, generator, dtype));
    }
    return from_tensors(config, std::move(tensors));
  });
}

Result<CausalLm> CausalLm::from_tensors(const ModelConfig& config, std::vector<at::Tensor> tensors) {
  if (Status status = check_config(config); !status) return status;
  const auto specs = parameter_specs(config);
  if (tensors.size() != specs.size()) {
    return Status(StatusCode::kInvalidArgument,
                  fmt::format("model has {} parameters, {} tensors were given", specs.size(), tensors.size()));
  }
  return guard_torch("adopt tensors", [&]() -> Result<CausalLm> {
    CausalLm model;
    model.config_ = config;
    for (std::size_t i = 0; i < specs.size(); ++i) {
      if (tensors[i].sizes() != at::IntArrayRef(specs[i].shape)) {
        return Status(StatusCode::kInvalidArgument,
                      fmt::format("tensor for \"{}\" has the wrong shape", specs[i].name));
      }
      at::Tensor leaf = tensors[i].detach().contiguous();
      leaf.set_requires_grad(true);
      model.parameters_.push_back({specs[i].name, std::move(leaf)});
    }
    model.bind();
    return model;
  });
}

void CausalLm::bind() {
  Cursor cursor(parameters_);
  embedding_ = cursor.next();
  const auto linear = [&](bool bias) {
    Linear out;
    out.weight = cursor.next();
    if (bias) out.bias = cursor.next();
    return out;
  };
  for (std::int64_t i = 0; i < config_.layers; ++i) {
    Block& block = blocks_.emplace_back();
    for (Linear* target : {&block.q, &block.k, &block.v}) *target = linear(config_.qkv_bias);
    block.o = linear(config_.o_bias);
    for (Linear* target : {&block.gate, &block.up, &block.down}) *target = linear(false);
    block.attention_norm = cursor.next();
    block.mlp_norm = cursor.next();
  }
  final_norm_ = cursor.next();
  output_ = config_.tied_embeddings ? embedding_ : cursor.next();
}

Status CausalLm::check_batch(const at::Tensor& ids, const ForwardOptions& options) const {
  if (!ids.defined() || ids.dim() != 2 || ids.scalar_type() != at::kLong || ids.numel() == 0) {
    return {StatusCode::kInvalidArgument, "token ids must be a non-empty int64 tensor [batch, positions]"};
  }
  if (ids.size(1) > config_.max_positions) {
    return {StatusCode::kInvalidArgument,
            fmt::format("sequence of {} tokens, the model's max_position_embeddings is {}: cut the sequences",
                        ids.size(1), config_.max_positions)};
  }
  const std::int64_t lowest = ids.min().item<std::int64_t>();
  const std::int64_t highest = ids.max().item<std::int64_t>();
  if (lowest < 0 || highest >= config_.vocab_size) {
    return {StatusCode::kInvalidArgument,
            fmt::format("token id {} in a batch, the model's vocab_size is {}: the tokenizer does not fit the model",
                        lowest < 0 ? lowest : highest, config_.vocab_size)};
  }
  if (options.attention_dropout < 0 || options.attention_dropout >= 1) {
    return {StatusCode::kInvalidArgument, fmt::format("dropout {}: expected 0 <= p < 1", options.attention_dropout)};
  }
  if (options.attention_dropout > 0 && !options.generator) {
    return {StatusCode::kInvalidArgument, "dropout needs a generator: each rank brings its own"};
  }
  return Status::ok();
}

const RopeTable& CausalLm::rope(std::int64_t positions) const {
  if (rope_.positions() < positions) {
    const std::int64_t grown = std::min(config_.max_positions, std::max(positions, 2 * rope_.positions()));
    rope_ = make_rope_table(grown, config_.head_dim, config_.rope_theta,
                            embedding_.scalar_type() == at::kDouble ? at::kDouble : at::kFloat);
  }
  return rope_;
}

at::Tensor CausalLm::block(const Block& block, const at::Tensor& x, const AttentionShape& shape,
                           const ForwardOptions& options) const {
  const LinearMath math(options.precision == Precision::kBf16);
  const auto apply = [&](const Linear& layer, const at::Tensor& input) {
    return math.apply(input, layer.weight, layer.bias);
  };

  at::Tensor normed = math.input(fused::rms_norm(x, block.attention_norm, config_.rms_norm_eps));
  AttentionDropout dropout;
  if (options.attention_dropout > 0) {
    const double keep = 1.0 - options.attention_dropout;
    dropout.mask =
        at::empty({shape.batch * shape.kv_heads, shape.group() * shape.positions, shape.positions}, x.options())
            .bernoulli_(keep, options.generator.value())
            .div_(keep);
  }
  const at::Tensor mixed = fused::attention(apply(block.q, normed), apply(block.k, normed), apply(block.v, normed),
                                            rope(shape.positions), shape, dropout);
  const at::Tensor middle = x + apply(block.o, math.input(mixed));
  normed = math.input(fused::rms_norm(middle, block.mlp_norm, config_.rms_norm_eps));
  return middle + apply(block.down, math.input(fused::swiglu(apply(block.gate, normed), apply(block.up, normed))));
}

at::Tensor CausalLm::hidden(const at::Tensor& ids, const ForwardOptions& options) const {
  const AttentionShape shape{ids.size(0), ids.size(1), config_.heads, config_.kv_heads, config_.head_dim};
  // As in transformers, the row of the padding token receives no gradient from the input side.
  at::Tensor x = at::embedding(embedding_, ids.reshape({-1}), config_.pad_token_id.value_or(-1));
  for (const Block& layer : blocks_) x = block(layer, x, shape, options);
  return fused::rms_norm(x, final_norm_, config_.rms_norm_eps);
}

Result<at::Tensor> CausalLm::logits(const at::Tensor& ids, const ForwardOptions& options) const {
  return guard_torch("compute logits", [&]() -> Result<at::Tensor> {
    if (Status status = check_batch(ids, options); !status) return status;
    const at::NoGradGuard no_grad;
    const LinearMath math(options.precision == Precision::kBf16);
    const at::Tensor out = math.apply(math.input(hidden(ids, options)), output_, {});
    return math.wide(out).view({ids.size(0), ids.size(1), config_.vocab_size});
  });
}

Result<MicroBatchLoss> CausalLm::loss(const at::Tensor& ids, const at::Tensor& labels,
                                      const ForwardOptions& options) const {
  return guard_torch("compute the loss", [&]() -> Result<MicroBatchLoss> {
    if (Status status = check_batch(ids, options); !status) return status;
    if (!labels.defined() || labels.sizes() != ids.sizes() || labels.scalar_type() != at::kLong) {
      return Status(StatusCode::kInvalidArgument, "labels must be an int64 tensor of the shape of the token ids");
    }
    // Only rows with a label reach the output layer: with response-only loss that skips most of its work, and the
    // skipped rows have no part in the result.
    at::Tensor next = at::full_like(labels, kIgnoredLabel);
    if (labels.size(1) > 1) next.narrow(1, 0, labels.size(1) - 1).copy_(labels.narrow(1, 1, labels.size(1) - 1));
    next = next.view({-1});
    const at::Tensor counted = (next != kIgnoredLabel).nonzero().view({-1});
    const at::Tensor targets = next.index_select(0, counted);
    const std::int64_t tokens = counted.numel();
    if (tokens > 0) {
      const std::int64_t lowest = targets.min().item<std::int64_t>(), highest = targets.max().item<std::int64_t>();
      if (lowest < 0 || highest >= config_.vocab_size) {
        return Status(StatusCode::kInvalidArgument,
                      fmt::format("label {} in a batch, expected {} or 0 to {}", lowest < 0 ? lowest : highest,
                                  kIgnoredLabel, config_.vocab_size - 1));
      }
    }
    const at::Tensor rows = hidden(ids, options).index_select(0, counted);
    if (tokens == 0) return MicroBatchLoss{rows.sum(), 0};  // a zero that still has a graph
    const LinearMath math(options.precision == Precision::kBf16);
    const at::Tensor scores = math.wide(math.apply(math.input(rows), output_, {}));
    return MicroBatchLoss{at::cross_entropy_loss(scores, targets), tokens};
  });
}

Status CausalLm::backward(const MicroBatchLoss& result, double scale) {
  return guard_torch("run the backward pass", [&]() -> Status {
    result.loss.backward(at::full_like(result.loss, scale));
    return Status::ok();
  });
}

Result<MicroBatchLoss> CausalLm::accumulate(const at::Tensor& ids, const at::Tensor& labels, double scale,
                                            const ForwardOptions& options) {
  auto result = loss(ids, labels, options);
  if (!result) return result;
  if (Status status = backward(*result, scale); !status) return status;
  result->loss = result->loss.detach();
  return result;
}

void CausalLm::zero_grad() {
  for (Parameter& parameter : parameters_) parameter.tensor.mutable_grad().reset();
}

std::vector<at::Tensor> CausalLm::take_gradients() {
  std::vector<at::Tensor> out;
  out.reserve(parameters_.size());
  for (Parameter& parameter : parameters_) {
    at::Tensor& grad = parameter.tensor.mutable_grad();
    out.push_back(grad.defined() ? std::move(grad) : at::zeros_like(parameter.tensor));
    grad = at::Tensor();
  }
  return out;
}

Status CausalLm::set_gradients(const std::vector<at::Tensor>& gradients) {
  if (gradients.size() != parameters_.size()) {
    return {StatusCode::kInvalidArgument,
            fmt::format("{} gradients for a model of {} parameters", gradients.size(), parameters_.size())};
  }
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (gradients[i].sizes() != parameters_[i].tensor.sizes()) {
      return {StatusCode::kInvalidArgument, fmt::format("gradient of \"{}\" has the wrong shape", parameters_[i].name)};
    }
    parameters_[i].tensor.mutable_grad() = gradients[i];
  }
  return Status::ok();
}

}  // namespace lockstep::train
