#include "train/embedded_data.h"

#include <fmt/format.h>
#include <unistd.h>
#include <xxhash.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "train/alpaca.h"
#include "train/embedded_tasks.h"
#include "train/prompt.h"
#include "train/tokenizer.h"

namespace lockstep::train {
namespace {

namespace fs = std::filesystem;

std::optional<std::string> slurp(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) return std::nullopt;
  std::string bytes{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  if (in.bad()) return std::nullopt;
  return bytes;
}

Status io_error(const fs::path& file, const char* what, int error) {
  return Status(StatusCode::kIo, fmt::format("{}: {}: {}; choose another cache folder or free some space",
                                             file.string(), what, std::strerror(error)));
}

// A reader sees the old file or the new one whole, also after a crash.
Status write_atomically(const fs::path& file, std::string_view bytes) {
  fs::path temporary = file;
  temporary += fmt::format(".{}.tmp", ::getpid());
  std::FILE* out = std::fopen(temporary.c_str(), "wb");
  if (out == nullptr) return io_error(temporary, "cannot create", errno);
  bool written = std::fwrite(bytes.data(), 1, bytes.size(), out) == bytes.size() && std::fflush(out) == 0 &&
                 ::fsync(::fileno(out)) == 0;
  int error = errno;
  if (std::fclose(out) != 0 && written) {
    written = false;
    error = errno;
  }
  if (written && ::rename(temporary.c_str(), file.c_str()) == 0) return Status::ok();
  if (written) error = errno;
  ::unlink(temporary.c_str());
  return io_error(file, "cannot write", error);
}

// What the cache's manifest must say for these two files.
std::string manifest_of(std::string_view rows, std::string_view tokenizer) {
  return fmt::format("lockstep embedded data {}\nrows {:016x}\ntokenizer {:016x}\n", kEmbeddedDataVersion,
                     XXH3_64bits(rows.data(), rows.size()), XXH3_64bits(tokenizer.data(), tokenizer.size()));
}

Result<std::string> make_tokenizer(const std::vector<Row>& rows) {
  std::vector<std::string> texts;
  for (const Row& row : rows) {
    texts.push_back(row.instruction);
    texts.push_back(row.input);
    texts.push_back(row.output);
  }
  TokenizerTraining training;
  training.vocab_size = kEmbeddedVocab;
  // As single pieces the fixed words of the template cost a small model a handful of tokens instead of sixty. The
  // response mark comes with and without the paper's newline.
  training.whole_pieces = {"\n",
                           std::string(kHeaderWithInput),
                           std::string(kHeaderWithoutInput),
                           std::string(kInstructionMark),
                           std::string(kInputMark),
                           std::string(kResponseMark)};
  return train_tokenizer(texts, training);
}

}  // namespace

Result<EmbeddedData> ensure_embedded_data(const fs::path& cache_dir) {
  fs::path folder = cache_dir / fmt::format("embedded-v{}", kEmbeddedDataVersion);
  EmbeddedData data{folder / "rows.json", folder / "tokenizer.model", false};
  fs::path manifest = folder / "manifest.txt";
  std::optional<std::string> said = slurp(manifest), rows_bytes = slurp(data.rows), model = slurp(data.tokenizer);
  if (said && rows_bytes && model && *said == manifest_of(*rows_bytes, *model)) return data;

  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return io_error(folder, "cannot make the cache folder", error.value());
  std::vector<Row> rows = make_embedded_rows(kEmbeddedRows, kEmbeddedSeed);
  Result<std::string> tokenizer = make_tokenizer(rows);
  if (!tokenizer) return tokenizer.error();
  std::string json = to_alpaca_json(rows);
  if (Status status = write_atomically(data.rows, json); !status) return status;
  if (Status status = write_atomically(data.tokenizer, *tokenizer); !status) return status;
  // Last, so that a manifest stands only beside complete files.
  if (Status status = write_atomically(manifest, manifest_of(json, *tokenizer)); !status) return status;
  data.made = true;
  return data;
}

}  // namespace lockstep::train
