// A disk that tests can break: an SQLite VFS over the system's own that refuses writes on command, as a full or failing
// disk does. Test code only.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

namespace lockstep::store {

class FailingVfs {
 public:
  FailingVfs();  // registers it under a name of its own
  ~FailingVfs();
  FailingVfs(const FailingVfs&) = delete;
  FailingVfs& operator=(const FailingVfs&) = delete;

  const std::string& name() const { return name_; }

  // The next `bytes` bytes of writes succeed, then the disk is full (SQLITE_FULL, as ENOSPC gives).
  void fill_after(std::int64_t bytes) { room_ = bytes; }
  void make_room() { room_ = kUnlimited; }
  // Every write waits this long: a slow or hanging disk.
  void delay_writes_ms(int ms) { delay_ms_ = ms; }

  static constexpr std::int64_t kUnlimited = INT64_MAX;
  std::atomic<std::int64_t> room_{kUnlimited};
  std::atomic<int> delay_ms_{0};
  std::atomic<std::int64_t> refused_{0};

 private:
  struct Registration;
  std::string name_;
  Registration* registration_;
};

}  // namespace lockstep::store
