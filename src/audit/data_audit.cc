#include "audit/data_audit.h"

#include <algorithm>

namespace lockstep::audit {
namespace {

// A step in which this share of the samples was already read in the epoch lies in the next epoch: an overlap of ranks
// reaches at most 1 - 1/e of its newest step, an epoch boundary all of it.
constexpr double kWrapShare = 0.9;
// So many samples in a row must be known before a boundary is believed; fewer may be natural duplicates.
constexpr std::uint64_t kWrapSamples = 4;

}  // namespace

DataAudit::DataAudit(const AuditOptions& options) : table_(options.max_samples) {}

const AuditReport& DataAudit::add(std::uint64_t step, std::span<const RankBatch> batches) {
  if (last_step_ && step <= *last_step_) {
    table_.forget_from(step);
    pending_.clear();
    wrapped_.clear();
    wrap_samples_ = 0;
  }
  last_step_ = step;
  report_.step = step;
  report_.identical.clear();
  report_.replays.clear();
  report_.closed.reset();
  report_.step_samples = 0;
  report_.observed = false;
  for (const RankBatch& batch : batches) {
    report_.step_samples += batch.count;
    report_.observed = report_.observed || !batch.fingerprints.empty();
    if (batch.count > batch.fingerprints.size()) report_.current.complete = false;
    if (batch.sampler.observed) report_.current.dataset_size = batch.sampler.dataset_size;
  }
  if (!report_.observed) return report_;
  look_up(batches);
  find_identical(batches);
  follow_chains(step);
  settle_epoch(step, told_new_epoch(batches));
  collect_repeats(step);
  remember(step);
  report_.kept_fraction = table_.kept_fraction();
  report_.epoch_samples =
      std::max(report_.epoch_samples, static_cast<double>(report_.current.distinct) / report_.kept_fraction);
  return report_;
}

// By the sorted fingerprints, so that a loader that shuffles inside the batch does not hide it.
void DataAudit::find_identical(std::span<const RankBatch> batches) {
  std::map<std::vector<std::uint64_t>, std::vector<std::uint32_t>> groups;
  for (const RankBatch& batch : batches) {
    if (batch.fingerprints.empty()) continue;
    std::vector<std::uint64_t> key(batch.fingerprints.begin(), batch.fingerprints.end());
    std::sort(key.begin(), key.end());
    key.push_back(batch.count);
    groups[std::move(key)].push_back(batch.rank);
  }
  for (auto& [key, ranks] : groups) {
    if (ranks.size() < 2) continue;
    std::size_t distinct = 1;
    for (std::size_t i = 1; i + 1 < key.size(); ++i) distinct += key[i] != key[i - 1] ? 1 : 0;
    report_.identical.push_back({ranks, distinct});
  }
}

void DataAudit::look_up(std::span<const RankBatch> batches) {
  samples_.clear();
  for (const RankBatch& batch : batches) {
    Stream& stream = streams_[batch.rank];
    std::uint32_t position = stream.position;
    for (const std::uint64_t fingerprint : batch.fingerprints) {
      Sample sample{fingerprint, batch.rank, position++, false, {}};
      if (!table_.keeps(fingerprint)) continue;
      if (const Sighting* before = table_.find(fingerprint)) {
        sample.known = true;
        sample.before = *before;
      }
      samples_.push_back(sample);
    }
    stream.position += static_cast<std::uint32_t>(batch.count);
  }
}

void DataAudit::Chain::extend(std::int64_t to, const Sample& sample, std::uint64_t step) {
  if (run == 0 || to != distance) {
    run = 0;
    first_step = step;
  }
  distance = to;
  earlier_step = sample.before.step;
  ++run;
}

void DataAudit::follow_chains(std::uint64_t step) {
  for (const Sample& sample : samples_) {
    Stream& stream = streams_[sample.rank];
    if (!sample.known) {
      stream.to_latest.run = 0;
      stream.to_first.run = 0;
      continue;
    }
    const std::int64_t position = sample.position;
    stream.to_latest.extend(position - sample.before.position, sample, step);
    stream.to_first.extend(position - sample.before.first_position, sample, step);
  }
  for (const auto& [rank, stream] : streams_) {
    const Chain& chain = stream.to_latest.run >= stream.to_first.run ? stream.to_latest : stream.to_first;
    if (chain.run > 0)
      report_.replays.push_back({rank, chain.run, chain.distance, chain.first_step, chain.earlier_step});
  }
}

// Of the different samples of the step, how many were read before in this epoch.
double DataAudit::known_share() const {
  std::map<std::uint64_t, bool> known;
  for (const Sample& sample : samples_) {
    known[sample.fingerprint] = sample.known && sample.before.epoch == report_.current.epoch;
  }
  const auto count = std::count_if(known.begin(), known.end(), [](const auto& entry) { return entry.second; });
  return static_cast<double>(count) / static_cast<double>(known.size());
}

bool DataAudit::told_new_epoch(std::span<const RankBatch> batches) {
  std::optional<std::uint64_t> newest;
  for (const RankBatch& batch : batches) {
    if (batch.sampler.observed) newest = std::max(newest.value_or(0), batch.sampler.epoch);
  }
  const bool advanced = newest && told_epoch_ && *newest > *told_epoch_;
  if (newest) told_epoch_ = std::max(told_epoch_.value_or(0), *newest);
  return advanced;
}

// Decides whether the step at hand lies in a new epoch, and with that what the repeats just before it were.
void DataAudit::settle_epoch(std::uint64_t step, bool told) {
  if (told) return start_epoch(step);
  if (samples_.empty()) return;  // none of the step is in the kept part
  if (known_share() < kWrapShare) {
    commit_pending();
    wrapped_.clear();
    wrap_samples_ = 0;
    return;
  }
  wrap_samples_ += samples_.size();
  if (wrap_samples_ >= kWrapSamples) return start_epoch(step);
  wrapped_.insert(wrapped_.end(), samples_.begin(), samples_.end());
}

void DataAudit::start_epoch(std::uint64_t step) {
  report_.current.distinct =
      static_cast<std::uint64_t>(static_cast<double>(report_.current.distinct) / table_.kept_fraction());
  report_.closed = report_.current;
  EpochCoverage next;
  next.epoch = report_.current.epoch + 1;
  next.dataset_size = report_.current.dataset_size;
  next.first_step = step;
  report_.current = next;
  report_.repeats = {};
  pending_.clear();
  wrap_samples_ = 0;
  for (const Sample& sample : wrapped_) {
    if (Sighting* sighting = table_.find(sample.fingerprint)) sighting->epoch = static_cast<std::uint32_t>(next.epoch);
  }
  report_.current.consumed = wrapped_.size();
  report_.current.distinct = wrapped_.size();
  wrapped_.clear();
}

void DataAudit::collect_repeats(std::uint64_t step) {
  std::map<std::uint64_t, std::uint32_t> in_step;  // fingerprint -> rank that read it first
  for (const Sample& sample : samples_) {
    if (sample.known && sample.before.epoch == report_.current.epoch) {
      pending_.push_back({sample.before.rank, sample.rank, step});
      continue;
    }
    const auto [at, fresh] = in_step.emplace(sample.fingerprint, sample.rank);
    if (!fresh) pending_.push_back({at->second, sample.rank, step});
  }
}

void DataAudit::commit_pending() {
  Repeats& repeats = report_.repeats;
  for (const Repeat& repeat : pending_) {
    if (repeats.cross + repeats.same == 0) repeats.first_step = repeat.step;
    if (repeat.first == repeat.second) {
      ++repeats.same;
    } else {
      ++repeats.cross;
      ++repeats.pairs[std::minmax(repeat.first, repeat.second)];
    }
  }
  pending_.clear();
}

void DataAudit::remember(std::uint64_t step) {
  const auto epoch = static_cast<std::uint32_t>(report_.current.epoch);
  const double kept_before = table_.kept_fraction();
  report_.current.consumed += report_.step_samples;
  for (const Sample& sample : samples_) {
    if (!table_.keeps(sample.fingerprint)) continue;  // what is kept may have been halved in this loop
    Sighting* sighting = table_.find(sample.fingerprint);
    if (sighting == nullptr) {
      table_.insert(sample.fingerprint, {step, sample.position, sample.position, sample.rank, epoch});
      ++report_.current.distinct;
    } else if (sighting->epoch != epoch) {
      *sighting = {step, sample.position, sighting->first_position, sample.rank, epoch};
      ++report_.current.distinct;
    }
  }
  // The count is of kept samples; when the kept part was halved, so was what stands in the table.
  const double halved = table_.kept_fraction() / kept_before;
  if (halved < 1) {
    report_.current.distinct = static_cast<std::uint64_t>(static_cast<double>(report_.current.distinct) * halved);
  }
}

}  // namespace lockstep::audit
