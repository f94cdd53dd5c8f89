#include "train/replica.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <xxhash.h>

#include <cstring>
#include <optional>

#include "train/adamw.h"
#include "train/hf_folder.h"
#include "train/model.h"
#include "train/torch_guard.h"

namespace lockstep::train {
namespace {

constexpr const char* kOptimizerFile = "optimizer.safetensors";

// libtorch's CPU generator keeps 32 bits of its seed, so (seed, rank) is mixed down (SplitMix64's finaliser) instead of
// added up: streams of neighbouring seeds and ranks do not coincide.
std::uint64_t stream_seed(std::uint64_t seed, std::uint32_t rank) {
  std::uint64_t x = seed + 0x9e3779b97f4a7c15ULL * (std::uint64_t{rank} + 1);
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return (x ^ (x >> 31)) & 0xffffffffULL;
}

// Tensors of the parameters' shapes, one after the other in `flat`.
std::vector<at::Tensor> views(const at::Tensor& flat, const std::vector<Parameter>& parameters) {
  std::vector<at::Tensor> out;
  std::int64_t begin = 0;
  for (const Parameter& parameter : parameters) {
    const std::int64_t count = parameter.tensor.numel();
    out.push_back(flat.narrow(0, begin, count).view(parameter.tensor.sizes()));
    begin += count;
  }
  return out;
}

std::span<float> span_of(const at::Tensor& flat) {
  return {flat.data_ptr<float>(), static_cast<std::size_t>(flat.numel())};
}

at::Tensor tensor_of(const std::vector<std::int64_t>& values, const Batch& batch) {
  // Only read; libtorch has no tensors over const memory.
  return at::from_blob(const_cast<std::int64_t*>(values.data()), {batch.rows, batch.seq}, at::kLong);
}

std::uint64_t hash_of(std::uint32_t index, const at::Tensor& tensor) {
  return content_hash({index, 0, tensor.data_ptr<float>(), static_cast<std::uint64_t>(tensor.numel())});
}

}  // namespace

struct Replica::Impl {
  Impl(CausalLm model_in, AdamW optimizer_in) : model(std::move(model_in)), optimizer(std::move(optimizer_in)) {}

  ForwardOptions forward(std::uint32_t worker) const {
    ForwardOptions out;
    out.precision = options.precision;
    out.attention_dropout = options.dropout;
    if (options.dropout > 0) out.generator = generators[worker];
    return out;
  }

  ReplicaOptions options;
  CausalLm model;
  AdamW optimizer;
  at::Tensor gradient;  // flat; the front of `sum` when a single worker needs no second buffer
  at::Tensor sum;       // flat, with the tail
  at::Tensor sum_front, sum_tail;
  std::vector<at::Tensor> gradient_views, sum_views;
  bool shared = false;  // several workers
  bool folded = false;  // sum holds something of this step
  mutable std::vector<at::Generator> generators;
};

Replica::Replica(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Replica::Replica(Replica&&) noexcept = default;
Replica::~Replica() = default;

Result<Replica> Replica::make(const CausalLm& start, const ReplicaOptions& options) {
  return guard_torch("prepare the model for training", [&]() -> Result<Replica> {
    if (options.threads > 0) at::set_num_threads(static_cast<int>(options.threads));
    at::globalContext().setDeterministicAlgorithms(options.deterministic, /*warn_only=*/false);
    std::int64_t elements = 0;
    for (const Parameter& parameter : start.parameters()) elements += parameter.tensor.numel();

    const at::Tensor weights = at::empty({elements}, at::kFloat);
    std::vector<at::Tensor> own = views(weights, start.parameters());
    for (std::size_t i = 0; i < own.size(); ++i) own[i].copy_(start.parameters()[i].tensor.detach());
    auto model = CausalLm::from_tensors(start.config(), std::move(own));
    if (!model) return model.error();
    AdamWOptions adamw;
    adamw.weight_decay = options.weight_decay;
    auto optimizer = AdamW::make(model->parameters(), adamw);
    if (!optimizer) return optimizer.error();

    auto impl = std::make_unique<Impl>(std::move(*model), std::move(*optimizer));
    impl->options = options;
    impl->shared = options.workers > 1;
    impl->sum = at::zeros({elements + static_cast<std::int64_t>(options.tail)}, at::kFloat);
    impl->sum_front = impl->sum.narrow(0, 0, elements);
    impl->sum_tail = impl->sum.narrow(0, elements, static_cast<std::int64_t>(options.tail));
    impl->gradient = impl->shared ? at::zeros({elements}, at::kFloat) : impl->sum_front;
    impl->gradient_views = views(impl->gradient, impl->model.parameters());
    impl->sum_views = views(impl->sum_front, impl->model.parameters());
    for (std::uint32_t worker = 0; worker < options.workers; ++worker) {
      impl->generators.push_back(
          at::detail::createCPUGenerator(stream_seed(options.dropout_seed, options.first_rank + worker)));
    }
    // Autograd adds to a gradient that is there, in place: it stays a view of the flat buffer.
    if (Status status = impl->model.set_gradients(impl->gradient_views); !status) return status;
    return Replica(std::move(impl));
  });
}

Result<LossSum> Replica::accumulate(const Batch& batch, double scale, std::uint32_t worker) {
  auto result = impl_->model.accumulate(tensor_of(batch.input_ids, batch), tensor_of(batch.labels, batch), scale,
                                        impl_->forward(worker));
  if (!result) return result.error();
  return LossSum{result->loss.item<double>(), result->tokens};
}

Result<LossSum> Replica::evaluate(const Batch& batch) const {
  const at::NoGradGuard no_grad;
  ForwardOptions options;
  options.precision = impl_->options.precision;
  auto result = impl_->model.loss(tensor_of(batch.input_ids, batch), tensor_of(batch.labels, batch), options);
  if (!result) return result.error();
  return LossSum{result->loss.item<double>(), result->tokens};
}

std::span<const float> Replica::gradient() const {
  return span_of(impl_->gradient);
}

std::span<float> Replica::sum() {
  return span_of(impl_->sum);
}

std::vector<Segment> Replica::segments(std::span<const float> flat) const {
  std::vector<Segment> out;
  const float* data = flat.data();
  for (const Parameter& parameter : impl_->model.parameters()) {
    const auto count = static_cast<std::uint64_t>(parameter.tensor.numel());
    out.push_back({static_cast<std::uint32_t>(out.size()), 0, data, count, DType::kFloat32});
    data += count;
  }
  return out;
}

void Replica::begin_step() {
  if (impl_->shared) {
    impl_->sum_tail.zero_();  // the front is written by the first fold, and folding left gradient() at zero
  } else {
    impl_->sum.zero_();
  }
  impl_->folded = false;
}

Status Replica::fold_gradient() {
  if (!impl_->shared) return Status::ok();
  return guard_torch("add up gradients", [&]() -> Status {
    // A copy, not an addition to zero, for the first one: 0 + -0 would lose its sign.
    if (impl_->folded) {
      impl_->sum_front.add_(impl_->gradient);
    } else {
      impl_->sum_front.copy_(impl_->gradient);
    }
    impl_->folded = true;
    impl_->gradient.zero_();
    return Status::ok();
  });
}

double Replica::gradient_norm() const {
  return train::gradient_norm({impl_->gradient});
}

Result<double> Replica::average_and_clip(std::uint32_t world, double clip) {
  return guard_torch("average the gradient", [&]() -> Result<double> {
    const double norm = train::gradient_norm({impl_->sum_front}) / world;
    impl_->sum_front.mul_(static_cast<float>(clip_factor(norm, clip) / world));
    return norm;
  });
}

Status Replica::optimizer_step(double learning_rate) {
  return impl_->optimizer.step(impl_->sum_views, learning_rate);
}

std::uint64_t Replica::weights_hash() const {
  std::uint64_t hash = 0;
  std::uint32_t index = 0;
  for (const Parameter& parameter : impl_->model.parameters()) hash += hash_of(index++, parameter.tensor);
  return hash;
}

std::uint64_t Replica::optimizer_hash() const {
  std::uint64_t hash = 0;
  std::uint32_t index = 0;
  for (const auto& [name, tensor] : impl_->optimizer.state()) hash += hash_of(index++, tensor);
  return hash;
}

std::uint64_t Replica::random_hash(std::uint32_t worker) const {
  const std::vector<std::byte> state = random_state(worker);
  return XXH3_64bits(state.data(), state.size());
}

std::vector<std::byte> Replica::random_state(std::uint32_t worker) const {
  const at::Tensor state = impl_->generators[worker].get_state();
  const auto* bytes = static_cast<const std::byte*>(state.data_ptr());
  return {bytes, bytes + state.nbytes()};
}

Status Replica::set_random_state(std::uint32_t worker, std::span<const std::byte> state) {
  return guard_torch("restore a random generator", [&]() -> Status {
    at::Tensor bytes = at::empty({static_cast<std::int64_t>(state.size())}, at::kByte);
    std::memcpy(bytes.data_ptr(), state.data(), state.size());
    impl_->generators[worker].set_state(bytes);
    return Status::ok();
  });
}

Status Replica::save_model(const std::filesystem::path& folder) const {
  return save_folder(impl_->model, folder);
}

Status Replica::save(const std::filesystem::path& folder) const {
  if (Status status = save_model(folder); !status) return status;
  return impl_->optimizer.save(folder / kOptimizerFile);
}

Status Replica::load(const std::filesystem::path& folder) {
  auto loaded = load_folder(folder);
  if (!loaded) return loaded.error();
  const auto& ours = impl_->model.parameters();
  const auto& theirs = loaded->parameters();
  for (std::size_t i = 0; i < std::max(ours.size(), theirs.size()); ++i) {
    if (i >= ours.size() || i >= theirs.size() || ours[i].name != theirs[i].name ||
        ours[i].tensor.sizes() != theirs[i].tensor.sizes()) {
      return {StatusCode::kInvalidArgument, fmt::format("{}: weights of another model", folder.string())};
    }
  }
  if (Status status = impl_->optimizer.load(folder / kOptimizerFile); !status) return status;
  return guard_torch("take weights from a checkpoint", [&]() -> Status {
    const at::NoGradGuard no_grad;
    for (std::size_t i = 0; i < ours.size(); ++i) at::Tensor(ours[i].tensor).copy_(theirs[i].tensor);
    return Status::ok();
  });
}

}  // namespace lockstep::train
