// lockstep top: a running training in a terminal. Redraws in place; on a pipe, or with --once, it prints one picture.
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <csignal>
#include <thread>

#include "commands.h"
#include "output.h"
#include "store/run_reader.h"

namespace lockstep::app {
namespace {

struct TopOptions {
  std::string run;
  bool once = false;
  double interval = 1.0;
};

std::atomic<bool> interrupted{false};

struct Size {
  int columns = 80, rows = 24;
};

Size terminal_size() {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return {size.ws_col, size.ws_row};
  return {};
}

std::string cut(const std::string& text, int width) {
  return static_cast<int>(text.size()) <= width
             ? text
             : text.substr(0, static_cast<std::size_t>(std::max(width - 1, 0))) + "~";
}

// A bar from the smallest to the largest of the ranks, so that differences show at any level.
std::string bar(double value, double low, double high, int width) {
  if (!std::isfinite(value)) return std::string(static_cast<std::size_t>(width), ' ');
  const double share = high > low ? (value - low) / (high - low) : 0.5;
  const int filled = std::clamp(static_cast<int>(std::lround(share * (width - 1))) + 1, 1, width);
  return std::string(static_cast<std::size_t>(filled), '#') +
         std::string(static_cast<std::size_t>(width - filled), '.');
}

struct Range {
  double low = HUGE_VAL, high = -HUGE_VAL;
  void add(const Metric& value) {
    if (!value) return;
    low = std::min(low, *value);
    high = std::max(high, *value);
  }
};

std::string metric(const Metric& value) {
  return value ? number(*value) : "-";
}

std::vector<std::string> rank_lines(const store::StoredStep& step, const Size& size, int room) {
  Range loss, norm;
  for (const auto& rank : step.ranks) {
    loss.add(rank.loss);
    norm.add(rank.norm);
  }
  const int width = std::clamp((size.columns - 46) / 2, 4, 30);
  std::vector<std::string> lines;
  lines.push_back(
      fmt::format("{:>5}  {:>9} {:<{}}  {:>9} {:<{}}  {:>7}", "rank", "loss", "", width, "norm", "", width, "cosine"));
  for (const auto& rank : step.ranks) {
    if (static_cast<int>(lines.size()) >= room) {
      lines.back() = fmt::format("  ... {} more ranks", step.ranks.size() + 2 - lines.size());
      break;
    }
    lines.push_back(fmt::format("{:>5}  {:>9} {}  {:>9} {}  {:>7}", rank.rank, metric(rank.loss),
                                bar(rank.loss.value_or(NAN), loss.low, loss.high, width), metric(rank.norm),
                                bar(rank.norm.value_or(NAN), norm.low, norm.high, width),
                                rank.leave_one_out ? fmt::format("{:.3f}", *rank.leave_one_out) : "-"));
  }
  return lines;
}

Result<std::vector<std::string>> picture(store::RunReader& reader, const Size& size) {
  const store::RunReader::Snapshot snapshot(reader);
  if (!snapshot.status()) return snapshot.status();
  Result<store::RunSummary> summary = reader.summary();
  if (!summary) return summary.error();
  Result<std::vector<Finding>> findings = reader.findings();
  if (!findings) return findings.error();
  std::vector<std::string> lines;
  lines.push_back(fmt::format("{}  {} workers, {} steps, {}  {} findings", summary->info.name, summary->info.world,
                              summary->steps, summary->live ? "running" : "ended", findings->size()));
  if (!summary->last_step) {
    lines.emplace_back("no step yet");
    return lines;
  }
  store::StoredStep newest;
  const Status status = reader.for_each_step({*summary->last_step, *summary->last_step}, store::RunReader::Ranks::kAll,
                                             [&](const store::StoredStep& step) {
                                               newest = step;
                                               return true;
                                             });
  if (!status) return status;
  const StepStats& stats = newest.stats;
  lines.push_back(fmt::format("step {}  loss {} std {}  norm {} cv {}  cosine {}", stats.step, metric(stats.loss_mean),
                              metric(stats.loss_std), metric(stats.norm_mean), metric(stats.norm_cv),
                              metric(stats.cosine_mean)));
  lines.emplace_back();
  const int reserved = std::min<int>(static_cast<int>(findings->size()), 4) + 2;
  for (std::string& line :
       rank_lines(newest, size, std::max(3, size.rows - static_cast<int>(lines.size()) - reserved))) {
    lines.push_back(std::move(line));
  }
  lines.emplace_back();
  for (std::size_t i = 0; i < findings->size() && i < 4; ++i) {
    const Finding& finding = (*findings)[i];
    lines.push_back(fmt::format("! {}  step {}: {}", finding.cause, finding.first_step, finding.message));
  }
  if (findings->empty()) lines.emplace_back("no findings");
  for (std::string& line : lines) line = cut(line, size.columns);
  return lines;
}

int run_top(const TopOptions& options) {
  Result<store::RunReader> reader = store::RunReader::open(options.run);
  if (!reader) return fail(reader.error());
  const bool live = !options.once && isatty(STDOUT_FILENO) == 1;
  if (live) {
    std::signal(SIGINT, [](int) { interrupted = true; });
    fmt::print("\x1b[?1049h\x1b[?25l");  // the terminal's other screen, without a cursor
  }
  Status failure;
  do {
    Result<std::vector<std::string>> lines = picture(*reader, terminal_size());
    if (!lines) {
      failure = lines.error();
      break;
    }
    if (live) fmt::print("\x1b[H");
    for (const std::string& line : *lines) fmt::print("{}{}\n", line, live ? "\x1b[K" : "");
    if (live) fmt::print("\x1b[J");
    std::fflush(stdout);
    const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(options.interval);
    while (live && !interrupted && std::chrono::steady_clock::now() < until) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  } while (live && !interrupted);
  if (live) fmt::print("\x1b[?25h\x1b[?1049l");
  return failure ? kClean : fail(failure);
}

}  // namespace

void add_top(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<TopOptions>();
  CLI::App* command = app.add_subcommand("top", "Watch a running training in the terminal");
  command->footer("Example: lockstep top runs/x        (Ctrl-C leaves)");
  command->add_option("RUN", options->run, "folder that holds run.sqlite")->required();
  command->add_flag("--once", options->once, "print one picture and leave");
  command->add_option("--interval", options->interval, "seconds between pictures")
      ->capture_default_str()
      ->check(CLI::Range(0.1, 3600.0));
  command->callback([options, &exit_code] { exit_code = run_top(*options); });
}

}  // namespace lockstep::app
