#include "train/piece_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

namespace lockstep::train {

#ifdef LOCKSTEP_PIECES_LINKED

Result<const PieceLibrary*> piece_library() {
  return lockstep_piece_library();
}

#else

namespace {

constexpr const char* kModule = "liblockstep_pieces.so";  // on the run path of our programs

Result<const PieceLibrary*> open_module() {
  const auto failed = [] {
    const char* reason = ::dlerror();
    return Status(StatusCode::kUnavailable,
                  fmt::format("cannot load {}, which holds the SentencePiece tokenizer: {}; it belongs into the folder "
                              "of Lockstep's libraries",
                              kModule, reason != nullptr ? reason : "unknown reason"));
  };
  void* module = ::dlopen(kModule, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);  // never closed: models outlive any caller
  if (module == nullptr) return failed();
  const auto library = reinterpret_cast<decltype(&lockstep_piece_library)>(::dlsym(module, "lockstep_piece_library"));
  if (library == nullptr) return failed();
  return library();
}

}  // namespace

Result<const PieceLibrary*> piece_library() {
  static const Result<const PieceLibrary*> library = open_module();
  return library;
}

#endif

}  // namespace lockstep::train
