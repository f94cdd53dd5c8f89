// The SentencePiece half of piece_library.h; in builds with libtorch a module of its own.
#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <exception>
#include <utility>

#include "train/piece_library.h"

namespace lockstep::train {
namespace {

// The result of `body`, or what SentencePiece threw as a Status.
template <class Body>
auto guard(StatusCode code, Body body) -> decltype(body()) {
  try {
    return body();
  } catch (const std::exception& error) {
    return Status(code, error.what());
  }
}

class SentencePieceModel final : public PieceModel {
 public:
  sentencepiece::util::Status load(std::string_view bytes) { return processor_.LoadFromSerializedProto(bytes); }

  std::int32_t size() const noexcept override { return processor_.GetPieceSize(); }
  std::int32_t bos() const noexcept override { return processor_.bos_id(); }
  std::int32_t eos() const noexcept override { return processor_.eos_id(); }
  std::int32_t pad() const noexcept override { return processor_.pad_id(); }

  Result<std::vector<int>> encode(std::string_view text) const override {
    return guard(StatusCode::kInternal, [&]() -> Result<std::vector<int>> {
      std::vector<int> ids;
      if (auto status = processor_.Encode(text, &ids); !status.ok()) {
        return Status(StatusCode::kInternal, status.message());
      }
      return ids;
    });
  }

  Result<std::string> decode(const std::vector<int>& ids) const override {
    return guard(StatusCode::kInternal, [&]() -> Result<std::string> {
      std::string text;
      if (auto status = processor_.Decode(ids, &text); !status.ok()) {
        return Status(StatusCode::kInternal, status.message());
      }
      return text;
    });
  }

 private:
  sentencepiece::SentencePieceProcessor processor_;
};

class Lines final : public sentencepiece::SentenceIterator {
 public:
  explicit Lines(std::vector<std::string> lines) : lines_(std::move(lines)) {}
  bool done() const override { return at_ >= lines_.size(); }
  void Next() override { ++at_; }
  const std::string& value() const override { return lines_[at_]; }
  sentencepiece::util::Status status() const override { return {}; }

 private:
  std::vector<std::string> lines_;
  std::size_t at_ = 0;
};

Result<std::unique_ptr<PieceModel>> load(std::string_view bytes) {
  return guard(StatusCode::kCorrupt, [&]() -> Result<std::unique_ptr<PieceModel>> {
    auto model = std::make_unique<SentencePieceModel>();
    if (auto status = model->load(bytes); !status.ok()) return Status(StatusCode::kCorrupt, status.message());
    return std::unique_ptr<PieceModel>(std::move(model));
  });
}

Result<std::string> train(std::vector<std::string> lines,
                          const std::unordered_map<std::string, std::string>& settings) {
  return guard(StatusCode::kInternal, [&]() -> Result<std::string> {
    Lines iterator(std::move(lines));
    std::string model;
    if (auto status = sentencepiece::SentencePieceTrainer::Train(settings, &iterator, &model); !status.ok()) {
      return Status(StatusCode::kInternal, status.message());
    }
    return model;
  });
}

constexpr PieceLibrary kLibrary{load, train};

}  // namespace
}  // namespace lockstep::train

extern "C" __attribute__((visibility("default"))) const lockstep::train::PieceLibrary* lockstep_piece_library() {
  return &lockstep::train::kLibrary;
}
