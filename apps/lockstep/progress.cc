#include "progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

namespace lockstep::app {
namespace {

constexpr int kBarCells = 24;
constexpr std::chrono::milliseconds kRedraw{100};

std::size_t terminal_width() {
  winsize size{};
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 20 ? size.ws_col : 80;
}

}  // namespace

std::string clock_text(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0 || seconds > 1e9) return "-";
  const auto whole = static_cast<std::int64_t>(std::llround(seconds));
  if (whole < 3600) return fmt::format("{}:{:02}", whole / 60, whole % 60);
  return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

bool Progress::is_terminal() {
  return ::isatty(STDERR_FILENO) == 1;
}

void Progress::step(std::int64_t done, std::int64_t total, double loss, std::int64_t tokens) {
  if (first_step_ < 0) first_step_ = done - 1;
  ++steps_;
  tokens_ += tokens;
  if (terminal_) {
    const auto now = Clock::now();
    if (now - last_draw_ < kRedraw && done < total) return;
    last_draw_ = now;
    return draw(done, total, loss);
  }
  const std::int64_t every = log_every_ > 0 ? log_every_ : std::max<std::int64_t>(1, total / 10);
  if (done % every != 0 && done != total) return;
  const double seconds = std::chrono::duration<double>(Clock::now() - begin_).count();
  fmt::print(stderr, "step {}/{}  loss {:.4f}  {:.0f} tokens/s\n", done, total, loss,
             seconds > 0 ? static_cast<double>(tokens_) / seconds : 0.0);
}

void Progress::draw(std::int64_t done, std::int64_t total, double loss) {
  const double seconds = std::chrono::duration<double>(Clock::now() - begin_).count();
  const double rate = seconds > 0 ? static_cast<double>(tokens_) / seconds : 0;
  const double left = seconds / static_cast<double>(steps_) * static_cast<double>(total - done);
  const auto full = static_cast<int>(kBarCells * done / std::max<std::int64_t>(total, 1));
  std::string line = fmt::format("[{:=<{}}{: <{}}] {}/{}  loss {:.4f}  {:.0f} tokens/s  {} left", "", full, "",
                                 kBarCells - full, done, total, loss, rate, clock_text(left));
  line.resize(std::min(line.size(), terminal_width() - 1));
  fmt::print(stderr, "\r{}\033[K", line);
  std::fflush(stderr);
  drawn_ = true;
}

void Progress::note(const std::string& text) {
  fmt::print(stderr, "{}{}\n", drawn_ ? "\r\033[K" : "", text);
  drawn_ = false;
}

void Progress::finish() {
  if (drawn_) fmt::print(stderr, "\n");
  drawn_ = false;
}

}  // namespace lockstep::app
