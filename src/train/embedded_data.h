// The data set and tokenizer that come with the project: made on the spot, kept in a cache folder, never downloaded.
//
// Safe when several processes ask at once: everything is written beside its place and renamed into it, and all of them
// would write the same bytes. A damaged or outdated cache is made anew.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>

#include "lockstep/status.h"

namespace lockstep::train {

// Raised whenever the rows or the tokenizer's training change; older caches are then left alone and not read.
inline constexpr int kEmbeddedDataVersion = 1;
inline constexpr std::size_t kEmbeddedRows = 4000;
inline constexpr std::uint64_t kEmbeddedSeed = 20260214;
inline constexpr int kEmbeddedVocab = 768;

struct EmbeddedData {
  std::filesystem::path rows;       // Alpaca JSON
  std::filesystem::path tokenizer;  // tokenizer.model
  bool made = false;                // false: it was in the cache
};

// Makes cache_dir when it is missing.
Result<EmbeddedData> ensure_embedded_data(const std::filesystem::path& cache_dir);

}  // namespace lockstep::train
