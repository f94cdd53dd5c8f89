#include "report/run_watch.h"

#include <fmt/format.h>

#include <exception>
#include <filesystem>
#include <system_error>

#include "store/run_reader.h"
#include "store/schema.h"

namespace lockstep::report {
namespace {

namespace fs = std::filesystem;

std::string signature(const fs::path& folder) {
  std::string text;
  for (const char* suffix : {"", "-wal"}) {
    const fs::path file = folder / (std::string(store::kRunFile) + suffix);
    std::error_code error;
    const auto size = fs::file_size(file, error);
    const auto time = fs::last_write_time(file, error);
    text += error ? "-;" : fmt::format("{},{};", size, time.time_since_epoch().count());
  }
  return text;
}

}  // namespace

RunWatch::RunWatch(const RunCatalog& catalog, std::chrono::milliseconds interval)
    : catalog_(catalog), interval_(interval), thread_([this] { run(); }) {}

RunWatch::~RunWatch() {
  stop();
  thread_.join();
}

void RunWatch::run() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (listeners_ > 0) {
      lock.unlock();
      try {
        look();
      } catch (const std::exception&) {
        // A run that cannot be listed now is looked at again in a moment; the page tells why when it asks.
      }
      lock.lock();
    }
    changed_.wait_for(lock, interval_, [this] { return stopping_; });
  }
}

void RunWatch::look() {
  for (const CatalogEntry& entry : catalog_.list()) {
    const std::string now = signature(entry.folder);
    {
      const std::lock_guard lock(mutex_);
      if (stopping_) return;
      if (const auto found = seen_.find(entry.name); found != seen_.end() && found->second.signature == now) continue;
    }
    Result<store::RunReader> reader = store::RunReader::open(entry.folder);
    if (!reader) continue;
    Result<store::RunSummary> summary = reader->summary();
    if (!summary) continue;
    const std::lock_guard lock(mutex_);
    seen_[entry.name] = {now, {entry.name, summary->steps, summary->findings}, ++version_};
    changed_.notify_all();
  }
}

bool RunWatch::subscribe(std::size_t max, std::uint64_t& position) {
  const std::lock_guard lock(mutex_);
  if (stopping_ || listeners_ >= max) return false;
  ++listeners_;
  position = version_;
  return true;
}

void RunWatch::unsubscribe() {
  const std::lock_guard lock(mutex_);
  --listeners_;
}

std::vector<RunUpdate> RunWatch::wait(std::uint64_t& position, std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, timeout, [&] { return stopping_ || version_ > position; });
  std::vector<RunUpdate> updates;
  for (const auto& [name, seen] : seen_) {
    if (seen.version > position) updates.push_back(seen.update);
  }
  position = version_;
  return updates;
}

void RunWatch::stop() {
  const std::lock_guard lock(mutex_);
  stopping_ = true;
  changed_.notify_all();
}

bool RunWatch::stopped() const {
  const std::lock_guard lock(mutex_);
  return stopping_;
}

}  // namespace lockstep::report
