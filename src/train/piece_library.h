// SentencePiece at arm's length: what the tokenizer needs of it, as an interface.
//
// libsentencepiece exports a protobuf of its own, libtorch brings another version, and in one process the first one
// found serves both: a crash before main. So in builds with libtorch the SentencePiece half lives in a module that is
// loaded with RTLD_DEEPBIND (its symbols bind to its own libraries first) and RTLD_LOCAL (nobody else sees them).
// Without libtorch it is linked in, which sanitizers need.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "lockstep/status.h"

namespace lockstep::train {

// A loaded model. Calls are const and may come from several threads.
class PieceModel {
 public:
  virtual ~PieceModel() = default;
  virtual std::int32_t size() const noexcept = 0;
  virtual std::int32_t bos() const noexcept = 0;  // -1 where the model has none
  virtual std::int32_t eos() const noexcept = 0;
  virtual std::int32_t pad() const noexcept = 0;
  virtual Result<std::vector<int>> encode(std::string_view text) const = 0;
  virtual Result<std::string> decode(const std::vector<int>& ids) const = 0;
};

// Messages are SentencePiece's own; the caller adds the name of the thing.
struct PieceLibrary {
  Result<std::unique_ptr<PieceModel>> (*load)(std::string_view bytes);
  Result<std::string> (*train)(std::vector<std::string> lines,
                               const std::unordered_map<std::string, std::string>& settings);
};

// Loaded once; kUnavailable, with the reason, when the module is not there.
Result<const PieceLibrary*> piece_library();

}  // namespace lockstep::train

// The module's only symbol.
extern "C" const lockstep::train::PieceLibrary* lockstep_piece_library();
