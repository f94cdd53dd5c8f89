#include "train/launcher.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string_view>
#include <thread>

extern char** environ;

namespace lockstep::train {
namespace {

constexpr std::chrono::seconds kGrace{10};  // between a polite end and a forced one

// The strings behind an argv or envp, and the pointers to them.
class CStrings {
 public:
  explicit CStrings(std::vector<std::string> strings) : strings_(std::move(strings)) {
    for (std::string& text : strings_) pointers_.push_back(text.data());
    pointers_.push_back(nullptr);
  }
  char** data() { return pointers_.data(); }

 private:
  std::vector<std::string> strings_;
  std::vector<char*> pointers_;
};

std::vector<std::string> environment_of(const LaunchOptions& options, std::uint32_t rank, std::uint32_t threads) {
  std::vector<std::string> out = {fmt::format("RANK={}", rank),
                                  fmt::format("LOCAL_RANK={}", rank),
                                  fmt::format("WORLD_SIZE={}", options.workers),
                                  "MASTER_ADDR=127.0.0.1",
                                  fmt::format("MASTER_PORT={}", options.store_port),
                                  "TORCHELASTIC_USE_AGENT_STORE=True",
                                  "TORCHELASTIC_RESTART_COUNT=0",
                                  fmt::format("OMP_NUM_THREADS={}", threads)};
  const std::size_t own = out.size();
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    const auto name = text.substr(0, text.find('=') + 1);
    const bool replaced =
        std::any_of(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(own),
                    [&](const std::string& ours) { return std::string_view(ours).starts_with(name); });
    if (!replaced) out.emplace_back(text);
  }
  return out;
}

// The child's side between fork and exec: async-signal-safe calls only.
[[noreturn]] void become_worker(char** arguments, char** environment, pid_t parent, const sigset_t& mask) {
  ::setpgid(0, 0);                     // the terminal's Ctrl-C reaches the launcher alone, which passes it on once
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // no orphans, even when the launcher is killed
  if (::getppid() != parent) ::_exit(127);
  ::sigprocmask(SIG_SETMASK, &mask, nullptr);
  ::execve("/proc/self/exe", arguments, environment);
  ::_exit(127);
}

// Blocks the signals that wait() below takes one by one; restores the mask at its end.
class SignalWait {
 public:
  SignalWait() {
    sigemptyset(&signals_);
    for (int signal : {SIGINT, SIGTERM, SIGCHLD}) sigaddset(&signals_, signal);
    ::pthread_sigmask(SIG_BLOCK, &signals_, &before_);
  }
  ~SignalWait() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalWait(const SignalWait&) = delete;
  SignalWait& operator=(const SignalWait&) = delete;

  const sigset_t& before() const { return before_; }
  // The next signal, or 0 after a tenth of a second.
  int wait() const {
    const timespec tenth{0, 100'000'000};
    const int signal = ::sigtimedwait(&signals_, nullptr, &tenth);
    return signal > 0 ? signal : 0;
  }

 private:
  sigset_t signals_, before_;
};

class Workers {
 public:
  explicit Workers(std::uint32_t count) : pids_(count, 0) {}
  ~Workers() {
    signal_all(SIGKILL);
    for (pid_t pid : pids_) {
      if (pid > 0) ::waitpid(pid, nullptr, 0);
    }
  }

  Status start(const LaunchOptions& options, const sigset_t& mask) {
    const std::uint32_t cores = std::max(1U, std::thread::hardware_concurrency());
    const std::uint32_t threads = options.threads != 0 ? options.threads : std::max(1U, cores / options.workers);
    CStrings arguments(options.arguments);
    const pid_t parent = ::getpid();
    for (std::uint32_t rank = 0; rank < options.workers; ++rank) {
      CStrings environment(environment_of(options, rank, threads));
      const pid_t pid = ::fork();
      if (pid == 0) become_worker(arguments.data(), environment.data(), parent, mask);
      if (pid < 0) {
        return {StatusCode::kUnavailable,
                fmt::format("cannot start the process of rank {} of {}: {}; use fewer workers or the virtual engine",
                            rank, options.workers, std::strerror(errno))};
      }
      ::setpgid(pid, pid);  // here too: whoever comes first
      pids_[rank] = pid;
    }
    return Status::ok();
  }

  bool any_left() const {
    return std::any_of(pids_.begin(), pids_.end(), [](pid_t pid) { return pid > 0; });
  }
  void signal_all(int signal) const {
    for (pid_t pid : pids_) {
      if (pid > 0) ::kill(pid, signal);
    }
  }
  // Takes note of every worker that has ended.
  void reap() {
    for (std::size_t rank = 0; rank < pids_.size(); ++rank) {
      int status = 0;
      if (pids_[rank] <= 0 || ::waitpid(pids_[rank], &status, WNOHANG) != pids_[rank]) continue;
      pids_[rank] = 0;
      if (WIFEXITED(status) && WEXITSTATUS(status) == 0) continue;
      failures_.push_back({rank, status});
    }
  }
  bool failed() const { return !failures_.empty(); }

  // One that a signal ended is the cause; the others merely lost their peer.
  Status outcome() const {
    if (failures_.empty()) return Status::ok();
    auto cause = std::find_if(failures_.begin(), failures_.end(),
                              [](const Failure& failure) { return WIFSIGNALED(failure.status); });
    if (cause == failures_.end()) cause = failures_.begin();
    return {StatusCode::kUnavailable, fmt::format("the process of rank {} of {} ended with {}; the job was ended",
                                                  cause->rank, pids_.size(), describe_wait_status(cause->status))};
  }

 private:
  struct Failure {
    std::size_t rank;
    int status;
  };
  std::vector<pid_t> pids_;  // 0: ended
  std::vector<Failure> failures_;
};

}  // namespace

std::string describe_wait_status(int status) {
  if (WIFSIGNALED(status)) {
    return fmt::format("signal {} ({})", WTERMSIG(status), ::strsignal(WTERMSIG(status)));
  }
  return fmt::format("exit status {}", WEXITSTATUS(status));
}

Status launch_workers(const LaunchOptions& options) {
  if (options.workers == 0) return {StatusCode::kInvalidArgument, "0 workers: at least 1 is needed"};
  const SignalWait signals;
  Workers workers(options.workers);
  if (Status status = workers.start(options, signals.before()); !status) return status;
  bool asked = false, ending = false;
  auto forced_at = std::chrono::steady_clock::time_point::max();
  Status outcome;
  while (workers.any_left()) {
    const int signal = signals.wait();
    if (signal == SIGINT || signal == SIGTERM) {
      workers.signal_all(asked ? SIGKILL : signal);
      asked = true;
    }
    workers.reap();
    if (workers.failed() && !ending) {
      ending = true;
      outcome = workers.outcome();  // before the others end by our own hand
      workers.signal_all(SIGTERM);
      forced_at = std::chrono::steady_clock::now() + kGrace;
    }
    if (std::chrono::steady_clock::now() >= forced_at) workers.signal_all(SIGKILL);
  }
  return outcome;
}

}  // namespace lockstep::train
