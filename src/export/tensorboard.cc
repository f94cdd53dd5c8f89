#include "export/tensorboard.h"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <memory>
#include <system_error>

#include "base/atomic_file.h"
#include "export/tfrecord.h"
#include "tensorboard_event.pb.h"

namespace lockstep::exports {
namespace {

namespace fs = std::filesystem;
using store::RunReader;
using store::StoredStep;

// The name that TensorBoard looks for; one fixed name, so that a second export replaces the first.
constexpr const char* kFileName = "events.out.tfevents.0000000000.lockstep";

class EventFile {
 public:
  static Result<std::unique_ptr<EventFile>> create(const fs::path& folder, double wall_time) {
    std::error_code error;
    fs::create_directories(folder, error);
    if (error)
      return Status(StatusCode::kIo, fmt::format("folder {} cannot be made: {}", folder.string(), error.message()));
    auto file = std::unique_ptr<EventFile>(new EventFile(folder / kFileName));
    pb::Event event;
    event.set_wall_time(wall_time);
    event.set_file_version("brain.Event:2");
    file->append(event);
    return file;
  }

  void append(const pb::Event& event) { file_.append(frame_record(event.SerializeAsString())); }
  Status commit() { return file_.commit(); }

 private:
  explicit EventFile(const fs::path& file) : file_(file) {}
  base::AtomicFile file_;
};

// Collects the scalars of one step; what is absent gives no point.
class Scalars {
 public:
  Scalars(std::uint64_t step, double wall_time) {
    event_.set_step(static_cast<std::int64_t>(step));
    event_.set_wall_time(wall_time);
  }
  void add(std::string_view tag, const Metric& value) {
    if (!value || std::isnan(*value)) return;
    pb::Summary::Value& entry = *event_.mutable_summary()->add_value();
    entry.set_tag(std::string(tag));
    entry.set_simple_value(static_cast<float>(*value));
  }
  void write(EventFile& file) const {
    if (event_.has_summary()) file.append(event_);
  }

 private:
  pb::Event event_;
};

pb::Event finding_event(const Finding& finding, double wall_time) {
  pb::Event event;
  event.set_step(static_cast<std::int64_t>(finding.first_step));
  event.set_wall_time(wall_time);
  pb::Summary::Value& entry = *event.mutable_summary()->add_value();
  entry.set_tag(fmt::format("findings/{}", finding.cause));
  entry.mutable_metadata()->mutable_plugin()->set_name("text");
  entry.mutable_metadata()->set_data_class(pb::TENSOR);
  entry.mutable_tensor()->set_dtype(pb::STRING);
  entry.mutable_tensor()->mutable_shape()->add_dimensions()->set_size(1);
  entry.mutable_tensor()->add_string_values(fmt::format("{}\n\n{}", finding.message, finding.remedy));
  return event;
}

// The group before the slash is TensorBoard's section.
std::string tag_of(std::string_view metric) {
  const std::string_view group = metric.substr(0, metric.find('_'));
  return fmt::format("{}/{}", group, metric);
}

class Exporter {
 public:
  Exporter(RunReader& reader, const fs::path& folder, std::uint32_t max_ranks)
      : reader_(reader), folder_(folder), max_ranks_(max_ranks) {}

  Status run() {
    const RunReader::Snapshot snapshot(reader_);
    if (!snapshot.status()) return snapshot.status();
    Result<store::RunSummary> summary = reader_.summary();
    if (!summary) return summary.error();
    begin_ = static_cast<double>(summary->info.created_ms) / 1e3;
    Result<std::unique_ptr<EventFile>> steps = EventFile::create(folder_ / "steps", begin_);
    if (!steps) return steps.error();
    Status made;
    const Status read = reader_.for_each_step({}, RunReader::Ranks::kSeries, [&](const StoredStep& step) {
      write_step(**steps, step);
      made = write_ranks(step);
      return made.is_ok();
    });
    if (!read) return read;
    if (!made) return made;
    Result<std::vector<Finding>> findings = reader_.findings();
    if (!findings) return findings.error();
    for (const Finding& finding : *findings) (*steps)->append(finding_event(finding, begin_));
    for (const auto& [rank, file] : ranks_) {
      if (Status status = file->commit(); !status) return status;
    }
    return (*steps)->commit();
  }

 private:
  // Imported steps carry no time; one second each keeps them in order.
  double time_of(const StoredStep& step) const {
    return step.time_ms ? static_cast<double>(*step.time_ms) / 1e3 : begin_ + static_cast<double>(step.stats.step);
  }

  void write_step(EventFile& file, const StoredStep& step) const {
    Scalars scalars(step.stats.step, time_of(step));
    for (const store::StepMetric& metric : store::kStepMetrics) {
      scalars.add(tag_of(metric.name), step.stats.*metric.member);
    }
    scalars.add("loss/loss_min", step.band.low);
    scalars.add("loss/loss_max", step.band.high);
    scalars.add("workers/missing", static_cast<double>(step.stats.missing));
    scalars.write(file);
  }

  Status write_ranks(const StoredStep& step) {
    for (const store::RankScalars& rank : step.ranks) {
      if (rank.rank >= max_ranks_) continue;
      std::unique_ptr<EventFile>& file = ranks_[rank.rank];
      if (!file) {
        Result<std::unique_ptr<EventFile>> made =
            EventFile::create(folder_ / fmt::format("rank_{}", rank.rank), begin_);
        if (!made) return made.error();
        file = std::move(*made);
      }
      Scalars scalars(step.stats.step, time_of(step));
      scalars.add("rank/loss", rank.loss);
      scalars.add("rank/norm", rank.norm);
      scalars.add("rank/leave_one_out", rank.leave_one_out);
      scalars.add("rank/reduction_gap", rank.reduction_gap);
      scalars.write(*file);
    }
    return Status::ok();
  }

  RunReader& reader_;
  const fs::path folder_;
  const std::uint32_t max_ranks_;
  double begin_ = 0;
  std::map<std::uint32_t, std::unique_ptr<EventFile>> ranks_;
};

}  // namespace

Status export_tensorboard(RunReader& reader, const fs::path& folder, std::uint32_t max_ranks) {
  try {
    return Exporter(reader, folder, max_ranks).run();
  } catch (const std::exception& error) {
    return {StatusCode::kInternal, fmt::format("{}: {}", folder.string(), error.what())};
  }
}

}  // namespace lockstep::exports
