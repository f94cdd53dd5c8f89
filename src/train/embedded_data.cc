#include "train/embedded_data.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "train/alpaca.h"
#include "train/embedded_tasks.h"
#include "train/file_bytes.h"
#include "train/prompt.h"
#include "train/tokenizer.h"

namespace lockstep::train {
namespace {

namespace fs = std::filesystem;

Status with_way_out(const Status& status) {
  return Status(status.code(), status.message() + "; choose another cache folder or free some space");
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
  Result<std::string> said = read_file(manifest), rows_bytes = read_file(data.rows), model = read_file(data.tokenizer);
  if (said && rows_bytes && model && *said == manifest_of(*rows_bytes, *model)) return data;

  std::error_code error;
  fs::create_directories(folder, error);
  if (error) {
    return with_way_out(
        Status(StatusCode::kIo, fmt::format("{}: cannot make the cache folder: {}", folder.string(), error.message())));
  }
  std::vector<Row> rows = make_embedded_rows(kEmbeddedRows, kEmbeddedSeed);
  Result<std::string> tokenizer = make_tokenizer(rows);
  if (!tokenizer) return tokenizer.error();
  std::string json = to_alpaca_json(rows);
  if (Status status = write_file_atomically(data.rows, json); !status) return with_way_out(status);
  if (Status status = write_file_atomically(data.tokenizer, *tokenizer); !status) return with_way_out(status);
  // Last, so that a manifest stands only beside complete files.
  if (Status status = write_file_atomically(manifest, manifest_of(json, *tokenizer)); !status)
    return with_way_out(status);
  data.made = true;
  return data;
}

}  // namespace lockstep::train
