#include "export/metrics_endpoint.h"

#include <fmt/format.h>
#include <prometheus/counter.h>
#include <prometheus/exposer.h>
#include <prometheus/gauge.h>
#include <prometheus/registry.h>

#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <vector>

namespace lockstep::exports {
namespace {

using prometheus::BuildCounter;
using prometheus::BuildGauge;
using prometheus::Counter;
using prometheus::Family;
using prometheus::Gauge;

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

// What of one rank is a series: name, help, member.
struct RankMetric {
  const char* name;
  const char* help;
  Metric RankStats::*member;
};
constexpr std::array kRankMetrics = {
    RankMetric{"loss", "Loss of the worker, mean over its micro-batches", &RankStats::loss},
    RankMetric{"norm", "Norm of the worker's gradient before the reduction", &RankStats::norm},
    RankMetric{"leave_one_out", "Cosine of the worker's gradient and the mean of the others",
               &RankStats::leave_one_out},
    RankMetric{"reduction_gap", "Distance of the reduced gradient as the worker holds it from the mean gradient",
               &RankStats::reduction_gap},
};

struct Timings {
  Metric step_ns, own_ns;  // means over the ranks
};

Timings timings_of(const Step& step) {
  double step_ns = 0, own_ns = 0;
  std::size_t count = 0;
  for (const Record& record : step.records) {
    if (record.timings.step_ns == 0) continue;
    step_ns += static_cast<double>(record.timings.step_ns);
    own_ns += static_cast<double>(record.timings.digest_ns + record.timings.other_ns);
    ++count;
  }
  if (count == 0) return {};
  return {step_ns / static_cast<double>(count), own_ns / static_cast<double>(count)};
}

// A stored step in the shape that the monitor gives.
StepStats stats_of(const store::StoredStep& step) {
  StepStats stats = step.stats;
  for (const store::RankScalars& rank : step.ranks) {
    stats.ranks.push_back({rank.rank, rank.loss, rank.norm, rank.leave_one_out, rank.reduction_gap});
  }
  return stats;
}

}  // namespace

struct MetricsEndpoint::Impl {
  explicit Impl(const MetricsOptions& given)
      : options(given), labels{{"run", given.run}}, registry(std::make_shared<prometheus::Registry>()) {
    for (const store::StepMetric& metric : store::kStepMetrics) {
      step_gauges.push_back(&gauge(fmt::format("lockstep_{}", metric.name),
                                   "Metric of the newest step; docs/metrics.md has its formula"));
    }
    for (const RankMetric& metric : kRankMetrics) {
      const std::string name = fmt::format("lockstep_rank_{}", metric.name);
      rank_families.push_back(&BuildGauge().Name(name).Help(metric.help).Labels(labels).Register(*registry));
      rank_low.push_back(&gauge(name + "_min", "Smallest over the workers"));
      rank_high.push_back(&gauge(name + "_max", "Largest over the workers"));
      rank_of_high.push_back(&gauge(name + "_max_rank", "The worker that holds the largest"));
      rank_of_low.push_back(&gauge(name + "_min_rank", "The worker that holds the smallest"));
    }
  }

  Gauge& gauge(const std::string& name, const std::string& help) {
    return BuildGauge().Name(name).Help(help).Labels(labels).Register(*registry).Add({}, kNone);
  }
  Counter& counter(const std::string& name, const std::string& help) {
    return BuildCounter().Name(name).Help(help).Labels(labels).Register(*registry).Add({});
  }

  void show(const StepStats& stats, const Timings& timings);
  void show_ranks(const StepStats& stats);

  MetricsOptions options;
  prometheus::Labels labels;
  std::shared_ptr<prometheus::Registry> registry;
  std::vector<Gauge*> step_gauges, rank_low, rank_high, rank_of_low, rank_of_high;
  std::vector<Family<Gauge>*> rank_families;
  Gauge& step = gauge("lockstep_step", "Newest analysed step");
  Gauge& workers = gauge("lockstep_workers", "Workers whose records of the newest step arrived");
  Gauge& enabled = gauge("lockstep_monitor_enabled", "1 while the monitor watches, 0 after it disabled itself");
  Gauge& step_seconds = gauge("lockstep_step_seconds", "Duration of the newest step, mean over the workers");
  Gauge& own_seconds = gauge("lockstep_overhead_seconds", "Lockstep's own part of the newest step");
  Gauge& dropped = gauge("lockstep_dropped_records", "Records that the monitor dropped or never received");
  Counter& steps_total = counter("lockstep_steps_total", "Analysed steps");
  Counter& missing_total = counter("lockstep_missing_records_total", "Workers' records that never came");
  Family<Gauge>& findings =
      BuildGauge().Name("lockstep_findings").Help("Findings by cause and certainty").Labels(labels).Register(*registry);

  std::mutex mutex;  // over the members below and the order of updates
  std::map<std::uint32_t, std::vector<Gauge*>> rank_gauges;
  std::map<std::pair<std::string, std::string>, std::set<std::string>> finding_ids;
  std::optional<std::uint64_t> followed;
  std::unique_ptr<prometheus::Exposer> exposer;  // last: its threads end before what they read
};

void MetricsEndpoint::Impl::show(const StepStats& stats, const Timings& timings) {
  const std::lock_guard lock(mutex);
  step.Set(static_cast<double>(stats.step));
  workers.Set(stats.workers);
  steps_total.Increment();
  missing_total.Increment(stats.missing);
  step_seconds.Set(timings.step_ns.value_or(kNone) / 1e9);
  own_seconds.Set(timings.own_ns.value_or(kNone) / 1e9);
  for (std::size_t m = 0; m < step_gauges.size(); ++m) {
    step_gauges[m]->Set((stats.*store::kStepMetrics[m].member).value_or(kNone));
  }
  show_ranks(stats);
}

void MetricsEndpoint::Impl::show_ranks(const StepStats& stats) {
  // A rank that did not come has no value now, rather than an old one.
  for (auto& [rank, gauges] : rank_gauges) {
    for (Gauge* one : gauges) one->Set(kNone);
  }
  for (std::size_t m = 0; m < kRankMetrics.size(); ++m) {
    const RankStats* low = nullptr;
    const RankStats* high = nullptr;
    const auto value = [&](const RankStats* rank) {
      return rank != nullptr ? *(rank->*kRankMetrics[m].member) : kNone;
    };
    for (const RankStats& rank : stats.ranks) {
      const Metric& own = rank.*kRankMetrics[m].member;
      if (!own || std::isnan(*own)) continue;
      if (low == nullptr || *own < value(low)) low = &rank;
      if (high == nullptr || *own > value(high)) high = &rank;
      if (rank.rank >= options.max_ranks) continue;
      std::vector<Gauge*>& gauges = rank_gauges[rank.rank];
      if (gauges.empty()) {
        for (Family<Gauge>* family : rank_families) {
          gauges.push_back(&family->Add({{"rank", std::to_string(rank.rank)}}, kNone));
        }
      }
      gauges[m]->Set(*own);
    }
    rank_low[m]->Set(value(low));
    rank_high[m]->Set(value(high));
    rank_of_low[m]->Set(low != nullptr ? low->rank : kNone);
    rank_of_high[m]->Set(high != nullptr ? high->rank : kNone);
  }
}

MetricsEndpoint::MetricsEndpoint(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

MetricsEndpoint::~MetricsEndpoint() = default;

Result<std::shared_ptr<MetricsEndpoint>> MetricsEndpoint::start(const MetricsOptions& options) {
  const std::string address = fmt::format("{}:{}", options.host, options.port);
  try {
    auto impl = std::make_unique<Impl>(options);
    impl->exposer = std::make_unique<prometheus::Exposer>(address, 2);
    impl->exposer->RegisterCollectable(impl->registry);
    return std::shared_ptr<MetricsEndpoint>(new MetricsEndpoint(std::move(impl)));
  } catch (const std::exception& error) {
    return Status(StatusCode::kUnavailable,
                  fmt::format("metrics cannot be served on {} ({}): is the port taken?", address, error.what()));
  }
}

void MetricsEndpoint::on_step(const Step& step, const StepStats& stats) noexcept {
  try {
    impl_->show(stats, timings_of(step));
  } catch (...) {
    // Out of memory: this step is not shown, the next one may be.
  }
}

void MetricsEndpoint::on_finding(const Finding& finding) noexcept {
  try {
    const std::lock_guard lock(impl_->mutex);
    const std::string certainty = to_string(finding.certainty);
    std::set<std::string>& ids = impl_->finding_ids[{finding.cause, certainty}];
    ids.insert(finding.id);
    impl_->findings.Add({{"cause", finding.cause}, {"certainty", certainty}}).Set(static_cast<double>(ids.size()));
  } catch (...) {
    // As above.
  }
}

void MetricsEndpoint::on_health(const Health& health) noexcept {
  impl_->enabled.Set(health.enabled ? 1 : 0);
  impl_->dropped.Set(
      static_cast<double>(health.drops_queue + health.drops_late + health.missing_records + health.rejected_records));
}

Status MetricsEndpoint::follow(store::RunReader& reader) {
  store::StepRange range;
  {
    const std::lock_guard lock(impl_->mutex);
    if (impl_->followed) range.from = *impl_->followed + 1;
  }
  const Status read = reader.for_each_step(range, store::RunReader::Ranks::kSeries, [&](const store::StoredStep& step) {
    Timings timings{step.step_ns, {}};
    if (step.step_ns) timings.own_ns = step.digest_ns.value_or(0) + step.other_ns.value_or(0);
    impl_->show(stats_of(step), timings);
    const std::lock_guard lock(impl_->mutex);
    impl_->followed = step.stats.step;
    return true;
  });
  if (!read) return read;
  Result<std::vector<Finding>> findings = reader.findings();
  if (!findings) return findings.error();
  for (const Finding& finding : *findings) on_finding(finding);
  Result<std::map<std::uint32_t, Health>> health = reader.health();
  if (!health) return health.error();
  if (!health->empty()) on_health(health->begin()->second);
  return Status::ok();
}

int MetricsEndpoint::port() const {
  return impl_->exposer->GetListeningPorts().front();
}

}  // namespace lockstep::exports
