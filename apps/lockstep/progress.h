// One line of progress on a terminal; a line now and then in a log file.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace lockstep::app {

// "1:05", "2:03:09"
std::string clock_text(double seconds);

// Writes to standard error. On a terminal one line is redrawn at most ten times a second; elsewhere every n-th step
// gives a line. Not thread-safe.
class Progress {
 public:
  // log_every: 0 chooses about ten lines per run.
  Progress(bool terminal, std::int64_t log_every) : terminal_(terminal), log_every_(log_every) {}
  static bool is_terminal();

  void step(std::int64_t done, std::int64_t total, double loss, std::int64_t tokens);
  // Prints `text` on a line of its own, above the bar.
  void note(const std::string& text);
  void finish();  // leaves the cursor on a fresh line

 private:
  using Clock = std::chrono::steady_clock;
  void draw(std::int64_t done, std::int64_t total, double loss);
  bool terminal_;
  std::int64_t log_every_;
  bool drawn_ = false;
  Clock::time_point begin_ = Clock::now(), last_draw_{};
  std::int64_t first_step_ = -1, steps_ = 0, tokens_ = 0;
};

}  // namespace lockstep::app
