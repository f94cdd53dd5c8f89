#include "train/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "train/file_bytes.h"
#include "train/piece_library.h"

namespace lockstep::train {

struct Tokenizer::Impl {
  std::unique_ptr<PieceModel> model;
};

Tokenizer::Tokenizer(std::unique_ptr<Impl> impl, std::string name, const SpecialIds& ids)
    : impl_(std::move(impl)), name_(std::move(name)), ids_(ids) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Result<Tokenizer> Tokenizer::load(const std::filesystem::path& file, const SpecialIds& ids) {
  Result<std::string> bytes = read_file(file);
  if (!bytes)
    return Status(bytes.error().code(), bytes.error().message() + "; a SentencePiece tokenizer.model is needed");
  return from_bytes(*bytes, file.string(), ids);
}

Result<Tokenizer> Tokenizer::from_bytes(std::string_view model, std::string_view name, const SpecialIds& ids) {
  auto library = piece_library();
  if (!library) return library.error();
  auto impl = std::make_unique<Impl>();
  using Loaded = Result<std::unique_ptr<PieceModel>>;
  Loaded loaded = model.empty() ? Loaded(Status(StatusCode::kCorrupt, "it is empty")) : (*library)->load(model);
  if (!loaded) {
    return Status(StatusCode::kCorrupt,
                  fmt::format("{}: not a SentencePiece model: {}", name, loaded.error().message()));
  }
  impl->model = std::move(*loaded);
  SpecialIds own = ids;
  if (own.bos < 0) own.bos = impl->model->bos();
  if (own.eos < 0) own.eos = impl->model->eos();
  if (own.pad < 0) own.pad = impl->model->pad();
  if (own.bos < 0 || own.eos < 0) {
    return Status(StatusCode::kInvalidArgument,
                  fmt::format("{}: the tokenizer has no {} token; give its id in the model's config.json", name,
                              own.bos < 0 ? "BOS" : "EOS"));
  }
  if (own.pad < 0) own.pad = own.eos;
  return Tokenizer(std::move(impl), std::string(name), own);
}

Result<std::vector<std::int32_t>> Tokenizer::encode(std::string_view text) const {
  auto pieces = impl_->model->encode(text);
  if (!pieces) {
    return Status(pieces.error().code(), fmt::format("{}: encoding failed: {}", name_, pieces.error().message()));
  }
  std::vector<std::int32_t> ids;
  ids.reserve(pieces->size() + 1);
  ids.push_back(ids_.bos);
  ids.insert(ids.end(), pieces->begin(), pieces->end());
  return ids;
}

Result<std::string> Tokenizer::decode(std::span<const std::int32_t> ids) const {
  std::vector<int> pieces;
  for (std::int32_t id : ids) {
    if (id == ids_.bos || id == ids_.eos || id == ids_.pad) continue;
    if (id < 0 || id >= vocab_size()) {
      return Status(StatusCode::kInvalidArgument,
                    fmt::format("{}: token {} is outside the {} of this tokenizer", name_, id, vocab_size()));
    }
    pieces.push_back(id);
  }
  auto text = impl_->model->decode(pieces);
  if (text) return text;
  return Status(text.error().code(), fmt::format("{}: decoding failed: {}", name_, text.error().message()));
}

std::int64_t Tokenizer::vocab_size() const noexcept {
  return impl_->model->size();
}

Status Tokenizer::check_fits(std::int64_t model_vocab) const {
  // The special ids count on their own: a config may place them beyond the tokenizer's pieces.
  std::int64_t largest = std::max<std::int64_t>({vocab_size() - 1, ids_.bos, ids_.eos, ids_.pad});
  if (largest < model_vocab) return Status::ok();
  return Status(StatusCode::kInvalidArgument,
                fmt::format("{}: the tokenizer gives ids up to {}, the model has embeddings for {} (0 to {}): this "
                            "tokenizer belongs to another model",
                            name_, largest, model_vocab, model_vocab - 1));
}

}  // namespace lockstep::train
