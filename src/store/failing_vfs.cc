#include "store/failing_vfs.h"

#include <fmt/format.h>
#include <sqlite3.h>

#include <chrono>
#include <cstring>
#include <thread>

namespace lockstep::store {
namespace {

// The real file lies behind ours, in the same allocation.
struct File {
  sqlite3_file base;
  FailingVfs* disk;
  sqlite3_file* real() { return reinterpret_cast<sqlite3_file*>(this + 1); }
};

File* own(sqlite3_file* file) {
  return reinterpret_cast<File*>(file);
}
sqlite3_file* real(sqlite3_file* file) {
  return own(file)->real();
}
const sqlite3_io_methods& methods(sqlite3_file* file) {
  return *real(file)->pMethods;
}

int file_close(sqlite3_file* f) {
  return methods(f).xClose(real(f));
}
int file_read(sqlite3_file* f, void* data, int bytes, sqlite3_int64 at) {
  return methods(f).xRead(real(f), data, bytes, at);
}
int file_write(sqlite3_file* f, const void* data, int bytes, sqlite3_int64 at) {
  FailingVfs& disk = *own(f)->disk;
  if (const int delay = disk.delay_ms_; delay > 0) std::this_thread::sleep_for(std::chrono::milliseconds(delay));
  if (disk.room_ != FailingVfs::kUnlimited && (disk.room_ -= bytes) < 0) {
    ++disk.refused_;
    return SQLITE_FULL;
  }
  return methods(f).xWrite(real(f), data, bytes, at);
}
int file_truncate(sqlite3_file* f, sqlite3_int64 size) {
  return methods(f).xTruncate(real(f), size);
}
int file_sync(sqlite3_file* f, int flags) {
  return methods(f).xSync(real(f), flags);
}
int file_size(sqlite3_file* f, sqlite3_int64* size) {
  return methods(f).xFileSize(real(f), size);
}
int file_lock(sqlite3_file* f, int level) {
  return methods(f).xLock(real(f), level);
}
int file_unlock(sqlite3_file* f, int level) {
  return methods(f).xUnlock(real(f), level);
}
int file_check_lock(sqlite3_file* f, int* out) {
  return methods(f).xCheckReservedLock(real(f), out);
}
int file_control(sqlite3_file* f, int op, void* arg) {
  return methods(f).xFileControl(real(f), op, arg);
}
int file_sector(sqlite3_file* f) {
  return methods(f).xSectorSize(real(f));
}
int file_traits(sqlite3_file* f) {
  return methods(f).xDeviceCharacteristics(real(f));
}
int file_shm_map(sqlite3_file* f, int page, int size, int extend, void volatile** out) {
  return methods(f).xShmMap(real(f), page, size, extend, out);
}
int file_shm_lock(sqlite3_file* f, int offset, int n, int flags) {
  return methods(f).xShmLock(real(f), offset, n, flags);
}
void file_shm_barrier(sqlite3_file* f) {
  methods(f).xShmBarrier(real(f));
}
int file_shm_unmap(sqlite3_file* f, int remove) {
  return methods(f).xShmUnmap(real(f), remove);
}

const sqlite3_io_methods kMethods = {
    2,           file_close,   file_read,     file_write,       file_truncate,  file_sync,
    file_size,   file_lock,    file_unlock,   file_check_lock,  file_control,   file_sector,
    file_traits, file_shm_map, file_shm_lock, file_shm_barrier, file_shm_unmap, nullptr,
    nullptr};

}  // namespace

struct FailingVfs::Registration {
  sqlite3_vfs vfs{};
  sqlite3_vfs* system = nullptr;
  FailingVfs* disk = nullptr;

  static int open(sqlite3_vfs* vfs, const char* name, sqlite3_file* file, int flags, int* out_flags) {
    auto* self = static_cast<Registration*>(vfs->pAppData);
    own(file)->disk = self->disk;
    own(file)->base.pMethods = nullptr;
    const int code = self->system->xOpen(self->system, name, own(file)->real(), flags, out_flags);
    if (code == SQLITE_OK) own(file)->base.pMethods = &kMethods;
    return code;
  }
};

FailingVfs::FailingVfs() : registration_(new Registration) {
  static std::atomic<int> count{0};
  name_ = fmt::format("failing-{}", ++count);
  registration_->system = sqlite3_vfs_find(nullptr);
  registration_->disk = this;
  // All else is the system's own: those functions use no more of the struct than pAppData's owner, which is theirs.
  registration_->vfs = *registration_->system;
  registration_->vfs.zName = name_.c_str();
  registration_->vfs.pNext = nullptr;
  registration_->vfs.szOsFile = static_cast<int>(sizeof(File)) + registration_->system->szOsFile;
  registration_->vfs.pAppData = registration_;
  registration_->vfs.xOpen = Registration::open;
  sqlite3_vfs_register(&registration_->vfs, 0);
}

FailingVfs::~FailingVfs() {
  sqlite3_vfs_unregister(&registration_->vfs);
  delete registration_;
}

}  // namespace lockstep::store
