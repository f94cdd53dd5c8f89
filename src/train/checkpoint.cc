#include "train/checkpoint.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>

#include "train/file_bytes.h"
#include "train/json_text.h"
#include "train/safetensors.h"

namespace lockstep::train {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kKept = 2;
constexpr std::string_view kPrefix = "step-";
constexpr std::string_view kTemporaryPrefix = ".writing-";
constexpr const char* kStateFile = "state.json";
constexpr const char* kRandomFile = "rng.safetensors";

Status io_error(const fs::path& path, const char* operation, const std::string& reason) {
  return {StatusCode::kIo, fmt::format("{}: cannot {}: {}", path.string(), operation, reason)};
}

// A rename survives a power cut only once its folder is synced.
Status sync_folder(const fs::path& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return io_error(folder, "open", std::strerror(errno));
  const int failed = ::fsync(descriptor);
  const int reason = errno;
  ::close(descriptor);
  return failed == 0 ? Status::ok() : io_error(folder, "sync", std::strerror(reason));
}

std::optional<std::int64_t> step_of(const fs::path& folder) {
  const std::string name = folder.filename().string();
  if (!name.starts_with(kPrefix)) return std::nullopt;
  std::int64_t step = 0;
  const auto [end, error] = std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), step);
  if (error != std::errc() || end != name.data() + name.size() || step < 0) return std::nullopt;
  return step;
}

std::string rank_key(std::size_t rank) {
  return fmt::format("rank.{}", rank);
}

Status write_random(const fs::path& file, const std::vector<std::vector<std::byte>>& states) {
  std::vector<TensorToWrite> tensors;
  for (std::size_t rank = 0; rank < states.size(); ++rank) {
    tensors.push_back(
        {rank_key(rank), TensorDtype::kU8, {static_cast<std::int64_t>(states[rank].size())}, states[rank]});
  }
  return write_safetensors(file, tensors, {});
}

Result<std::vector<std::vector<std::byte>>> read_random(const fs::path& file, std::size_t ranks) {
  auto reader = SafetensorsReader::open(file);
  if (!reader) return reader.error();
  std::vector<std::vector<std::byte>> out;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const TensorInfo* info = reader->find(rank_key(rank));
    if (info == nullptr || info->dtype != TensorDtype::kU8) {
      return Status(StatusCode::kCorrupt, fmt::format("{}: no generator of rank {}", file.string(), rank));
    }
    out.emplace_back(info->bytes());
    if (Status status = reader->read(*info, out.back()); !status) return status;
  }
  return out;
}

}  // namespace

Result<CheckpointFolder> CheckpointFolder::open(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return io_error(folder, "make the checkpoint folder", error.message());
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().filename().string().starts_with(kTemporaryPrefix)) {
      std::error_code ignored;
      fs::remove_all(entry.path(), ignored);
    }
  }
  if (error) return io_error(folder, "list", error.message());
  return CheckpointFolder(folder);
}

std::vector<fs::path> CheckpointFolder::list() const {
  std::vector<std::pair<std::int64_t, fs::path>> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder_, error)) {
    if (const auto step = step_of(entry.path())) found.emplace_back(*step, entry.path());
  }
  std::sort(found.rbegin(), found.rend());
  std::vector<fs::path> out;
  for (auto& [step, path] : found) out.push_back(std::move(path));
  return out;
}

Status CheckpointFolder::write(const CheckpointState& state,
                               const std::function<Status(const fs::path&)>& write_tensors) {
  const fs::path temporary = folder_ / fmt::format("{}{}", kTemporaryPrefix, ::getpid());
  std::error_code error;
  fs::remove_all(temporary, error);
  fs::create_directory(temporary, error);
  if (error) return io_error(temporary, "make", error.message());
  Status status = write_tensors(temporary);
  if (status) status = write_state(temporary, state);
  if (status) status = publish(temporary, state.step);
  if (!status) {
    fs::remove_all(temporary, error);
    return {status.code(), status.message() + "; the older checkpoints are untouched"};
  }
  const std::vector<fs::path> all = list();
  for (std::size_t i = kKept; i < all.size(); ++i) fs::remove_all(all[i], error);
  return Status::ok();
}

Status CheckpointFolder::write_state(const fs::path& folder, const CheckpointState& state) const {
  if (!state.random.empty()) {
    if (Status status = write_random(folder / kRandomFile, state.random); !status) return status;
  }
  const nlohmann::json document = {{"version", kCheckpointVersion},
                                   {"step", state.step},
                                   {"epoch", state.epoch},
                                   {"step_in_epoch", state.step_in_epoch},
                                   {"generators", state.random.size()},
                                   {"identity", state.identity}};
  return write_file_atomically(folder / kStateFile, document.dump(2) + "\n");
}

Status CheckpointFolder::publish(const fs::path& temporary, std::int64_t step) const {
  if (Status status = sync_folder(temporary); !status) return status;
  const fs::path final = folder_ / fmt::format("{}{:08d}", kPrefix, step);
  std::error_code error;
  fs::remove_all(final, error);  // of the same step: unreadable, or else the same bits
  fs::rename(temporary, final, error);
  if (error) return io_error(final, "put the checkpoint in place", error.message());
  return sync_folder(folder_);
}

Result<CheckpointState> read_checkpoint_state(const fs::path& folder) {
  const fs::path file = folder / kStateFile;
  auto text = read_file(file);
  if (!text) return text.error();
  auto document = parse_json_object(*text, file.string());
  if (!document) return document.error();
  const auto integer = [&](const char* key) -> std::int64_t {
    const auto found = document->find(key);
    return found != document->end() && found->is_number_unsigned() ? found->get<std::int64_t>() : -1;
  };
  if (integer("version") != kCheckpointVersion) {
    return Status(StatusCode::kUnsupported, fmt::format("{}: not a checkpoint of version {}, the only one this program "
                                                        "reads",
                                                        file.string(), kCheckpointVersion));
  }
  CheckpointState state;
  state.step = integer("step");
  state.epoch = integer("epoch");
  state.step_in_epoch = integer("step_in_epoch");
  const std::int64_t generators = integer("generators");
  const auto identity = document->find("identity");
  if (state.step < 0 || state.epoch < 0 || state.step_in_epoch < 0 || generators < 0 || generators > (1 << 20) ||
      identity == document->end() || !identity->is_object()) {
    return Status(StatusCode::kCorrupt, fmt::format("{}: a field is missing or not what it should be", file.string()));
  }
  state.identity = *identity;
  if (generators > 0) {
    auto random = read_random(folder / kRandomFile, static_cast<std::size_t>(generators));
    if (!random) return random.error();
    state.random = std::move(*random);
  }
  return state;
}

}  // namespace lockstep::train
