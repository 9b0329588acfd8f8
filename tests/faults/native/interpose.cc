// SPDX-License-Identifier: Apache-2.0
// A library to preload (LD_PRELOAD) that stands between a program and the C library: it lets a call
// on a file fail or hang, ends the process at one, and records what was written. SQLite and the
// standard library pass through it too, which is why the store has no fail points of its own: a
// step that somebody adds to it is met here without being named.
//
//   TENSORD_FAULTS_FOLDER   the calls that count: on files below this folder, by absolute paths
//   TENSORD_FAULTS_ORDERS   a file of kOrdersBytes with the order in force; another order may be
//                           written at any time. Two counters of 8 bytes, the order's number and
//                           how many calls have matched it, then its text:
//                             CALL PLACE ACTION SKIP TIMES
//                           CALL is open, read, write, sync, rename, link, unlink, mkdir, truncate,
//                           mmap, or any of them but read; PLACE is part of the path, or *; ACTION
//                           is an errno, `kill`, or `hang`, until there is another order; the first
//                           SKIP matches pass, the next TIMES (0: all) get the action.
//   TENSORD_FAULTS_RECORD   a file to which every change that succeeds is appended (Entry), with
//                           what the program says on standard output
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>

namespace {

constexpr size_t kOrdersBytes = 4096;

struct Orders {
  std::atomic<uint64_t> number;
  std::atomic<uint64_t> matched;
  char text[kOrdersBytes - 2 * sizeof(uint64_t)];
};
static_assert(sizeof(Orders) == kOrdersBytes);

// Of the record: this head, then `path_bytes` of a path and `data_bytes` of data or another path.
struct Entry {
  char kind;  // c: created, w: written, t: truncated, s: synced, r: renamed, l: linked, u:
              // unlinked, m: folder made, o: said on standard output
  char padding[7] = {};
  uint64_t inode = 0;
  uint64_t offset = 0;  // or the size
  uint32_t path_bytes = 0;
  uint32_t data_bytes = 0;
};

template <class F>
F* Real(const char* name) {
  return reinterpret_cast<F*>(dlsym(RTLD_NEXT, name));
}
// The C library's function of the same name, looked up once.
#define REAL(name) static auto* const real_##name = Real<decltype(name)>(#name)

class Faults {
 public:
  static Faults& Get() {
    static Faults* const faults = new Faults;  // outlives the program's own ends
    return *faults;
  }

  bool Counts(const std::string& path) const {
    return !folder_.empty() && path.compare(0, folder_.size(), folder_) == 0;
  }
  bool records() const { return record_ >= 0; }

  // 0, or the errno with which the call is to fail; does not return where it is to be the last.
  int Check(const char* call, const std::string& path) {
    if (orders_ == nullptr || !Counts(path)) return 0;
    char wanted[16] = "", place[256] = "", action[16] = "";
    unsigned long skip = 0, times = 0;
    if (std::sscanf(orders_->text, "%15s %255s %15s %lu %lu", wanted, place, action, &skip,
                    &times) != 5) {
      return 0;
    }
    const bool any = std::strcmp(wanted, "any") == 0 && std::strcmp(call, "read") != 0;
    if (!any && std::strcmp(wanted, call) != 0) return 0;
    if (std::strcmp(place, "*") != 0 && path.find(place) == std::string::npos) return 0;
    const uint64_t before = orders_->matched++;
    if (before < skip || (times != 0 && before >= skip + times)) return 0;
    if (std::strcmp(action, "hang") == 0) return Hang();
    if (std::strcmp(action, "kill") != 0) return std::atoi(action);
    Note(call, path);
    kill(getpid(), SIGKILL);
    while (true) pause();
  }

  void Record(Entry entry, const std::string& path, const void* data, size_t bytes) {
    if (record_ < 0) return;
    REAL(write);
    entry.path_bytes = static_cast<uint32_t>(path.size());
    entry.data_bytes = static_cast<uint32_t>(bytes);
    std::string text(reinterpret_cast<const char*>(&entry), sizeof entry);
    text.append(path).append(static_cast<const char*>(data), bytes);
    const std::lock_guard lock(mutex_);
    if (real_write(record_, text.data(), text.size()) < 0) abort();
  }
  void Record(char kind, const std::string& path, const std::string& other = "") {
    Record(Entry{kind}, path, other.data(), other.size());
  }

 private:
  // As on a disk that does not answer, which in the end does.
  int Hang() const {
    const uint64_t order = orders_->number;
    while (orders_->number == order) usleep(10'000);
    return 0;
  }

  Faults() {
    REAL(open);
    REAL(mmap);
    if (const char* folder = std::getenv("TENSORD_FAULTS_FOLDER")) folder_ = folder;
    if (const char* path = std::getenv("TENSORD_FAULTS_ORDERS")) {
      const int fd = real_open(path, O_RDWR | O_CLOEXEC);
      void* const mapped =
          fd < 0 ? MAP_FAILED
                 : real_mmap(nullptr, kOrdersBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
      if (mapped != MAP_FAILED) orders_ = static_cast<Orders*>(mapped);
      if (fd >= 0) close(fd);
    }
    if (const char* path = std::getenv("TENSORD_FAULTS_RECORD")) {
      record_ = real_open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    }
  }

  // Where the process ends, over the order: for the table of steps.
  void Note(const char* call, const std::string& path) {
    std::snprintf(orders_->text, sizeof orders_->text, "killed %s %s\n", call, path.c_str());
  }

  std::string folder_;
  Orders* orders_ = nullptr;
  int record_ = -1;
  std::mutex mutex_;
};

std::string PathOf(int fd) {
  char link[32], path[4096];
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t size = readlink(link, path, sizeof path);
  return size < 0 ? std::string() : std::string(path, static_cast<size_t>(size));
}

uint64_t InodeOf(int fd) {
  struct stat info;
  return fstat(fd, &info) == 0 ? info.st_ino : 0;
}

bool Exists(const char* path) {
  struct stat info;
  return lstat(path, &info) == 0;
}

// Makes the call unless it is to fail.
#define CHECK_CALL(call, path)                                         \
  if (const int error = Faults::Get().Check(call, path); error != 0) { \
    errno = error;                                                     \
    return -1;                                                         \
  }

#define CHECK_STREAM(path)                                               \
  if (const int error = Faults::Get().Check("open", path); error != 0) { \
    errno = error;                                                       \
    return nullptr;                                                      \
  }

template <class F>
int Open(F real, const char* path, int flags, mode_t mode) {
  CHECK_CALL("open", path);
  const bool changes = Faults::Get().records() && Faults::Get().Counts(path);
  const bool creates = changes && (flags & O_CREAT) != 0 && !Exists(path);
  const int fd = real(path, flags, mode);
  if (fd < 0 || !changes) return fd;
  if (creates) Faults::Get().Record(Entry{'c', {}, InodeOf(fd)}, path, "", 0);
  if (!creates && (flags & O_TRUNC) != 0) {
    Faults::Get().Record(Entry{'t', {}, InodeOf(fd)}, path, "", 0);
  }
  return fd;
}

mode_t ModeOf(int flags, va_list arguments) {
  return (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(arguments, mode_t) : 0;
}

template <class F>
int Temporary(F real, char* path, int flags) {
  CHECK_CALL("open", path);
  const int fd = real(path, flags);
  if (fd >= 0 && Faults::Get().Counts(path)) {
    Faults::Get().Record(Entry{'c', {}, InodeOf(fd)}, path, "", 0);
  }
  return fd;
}

void RecordWrite(int fd, const void* data, ssize_t written, uint64_t offset) {
  if (written <= 0 || !Faults::Get().records()) return;
  const std::string path = fd == STDOUT_FILENO ? "" : PathOf(fd);
  if (fd != STDOUT_FILENO && !Faults::Get().Counts(path)) return;
  Faults::Get().Record(Entry{fd == STDOUT_FILENO ? 'o' : 'w', {}, InodeOf(fd), offset}, path, data,
                       static_cast<size_t>(written));
}

template <class F>
ssize_t WriteAt(F real, int fd, const void* data, size_t size, off_t offset) {
  CHECK_CALL("write", PathOf(fd));
  const ssize_t written = real(fd, data, size, offset);
  RecordWrite(fd, data, written, static_cast<uint64_t>(offset));
  return written;
}

template <class F>
int Sync(F real, int fd) {
  const std::string path = PathOf(fd);
  CHECK_CALL("sync", path);
  const int result = real(fd);
  if (result == 0 && Faults::Get().Counts(path)) {
    Faults::Get().Record(Entry{'s', {}, InodeOf(fd)}, path, "", 0);
  }
  return result;
}

template <class F>
int Truncate(F real, int fd, off_t size) {
  const std::string path = PathOf(fd);
  CHECK_CALL("truncate", path);
  const int result = real(fd, size);
  if (result == 0 && Faults::Get().Counts(path)) {
    Faults::Get().Record(Entry{'t', {}, InodeOf(fd), static_cast<uint64_t>(size)}, path, "", 0);
  }
  return result;
}

template <class F>
void* Map(F real, void* address, size_t size, int protection, int flags, int fd, off_t offset) {
  if (fd >= 0) {
    if (const int error = Faults::Get().Check("mmap", PathOf(fd)); error != 0) {
      errno = error;
      return MAP_FAILED;
    }
  }
  return real(address, size, protection, flags, fd, offset);
}

// Of calls on one or two paths.
int Finish(int result, char kind, const char* path, const char* other = "") {
  if (result == 0 && Faults::Get().Counts(path)) Faults::Get().Record(kind, path, other);
  return result;
}

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
  REAL(open);
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = ModeOf(flags, arguments);
  va_end(arguments);
  return Open(real_open, path, flags, mode);
}

int open64(const char* path, int flags, ...) {
  REAL(open64);
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = ModeOf(flags, arguments);
  va_end(arguments);
  return Open(real_open64, path, flags, mode);
}

int mkostemp(char* path, int flags) {
  REAL(mkostemp);
  return Temporary(real_mkostemp, path, flags);
}
int mkostemp64(char* path, int flags) {
  REAL(mkostemp64);
  return Temporary(real_mkostemp64, path, flags);
}

DIR* opendir(const char* path) {
  REAL(opendir);
  CHECK_STREAM(path);
  return real_opendir(path);
}
// What the standard library's streams open; they read and write by the calls below.
FILE* fopen(const char* path, const char* mode) {
  REAL(fopen);
  CHECK_STREAM(path);
  return real_fopen(path, mode);
}
FILE* fopen64(const char* path, const char* mode) {
  REAL(fopen64);
  CHECK_STREAM(path);
  return real_fopen64(path, mode);
}

ssize_t read(int fd, void* data, size_t size) {
  REAL(read);
  CHECK_CALL("read", PathOf(fd));
  return real_read(fd, data, size);
}
ssize_t pread(int fd, void* data, size_t size, off_t offset) {
  REAL(pread);
  CHECK_CALL("read", PathOf(fd));
  return real_pread(fd, data, size, offset);
}
ssize_t pread64(int fd, void* data, size_t size, off64_t offset) {
  REAL(pread64);
  CHECK_CALL("read", PathOf(fd));
  return real_pread64(fd, data, size, offset);
}

ssize_t write(int fd, const void* data, size_t size) {
  REAL(write);
  CHECK_CALL("write", PathOf(fd));
  const off_t offset = Faults::Get().records() ? lseek(fd, 0, SEEK_CUR) : 0;
  const ssize_t written = real_write(fd, data, size);
  RecordWrite(fd, data, written, offset < 0 ? 0 : static_cast<uint64_t>(offset));
  return written;
}
ssize_t pwrite(int fd, const void* data, size_t size, off_t offset) {
  REAL(pwrite);
  return WriteAt(real_pwrite, fd, data, size, offset);
}
ssize_t pwrite64(int fd, const void* data, size_t size, off64_t offset) {
  REAL(pwrite64);
  return WriteAt(real_pwrite64, fd, data, size, offset);
}

int fsync(int fd) {
  REAL(fsync);
  return Sync(real_fsync, fd);
}
int fdatasync(int fd) {
  REAL(fdatasync);
  return Sync(real_fdatasync, fd);
}

int ftruncate(int fd, off_t size) noexcept {
  REAL(ftruncate);
  return Truncate(real_ftruncate, fd, size);
}
int ftruncate64(int fd, off64_t size) noexcept {
  REAL(ftruncate64);
  return Truncate(real_ftruncate64, fd, size);
}

int rename(const char* from, const char* to) noexcept {
  REAL(rename);
  CHECK_CALL("rename", to);
  return Finish(real_rename(from, to), 'r', from, to);
}
int link(const char* from, const char* to) noexcept {
  REAL(link);
  CHECK_CALL("link", to);
  return Finish(real_link(from, to), 'l', from, to);
}
int unlink(const char* path) noexcept {
  REAL(unlink);
  CHECK_CALL("unlink", path);
  return Finish(real_unlink(path), 'u', path);
}
int mkdir(const char* path, mode_t mode) noexcept {
  REAL(mkdir);
  if (!Exists(path)) CHECK_CALL("mkdir", path);
  return Finish(real_mkdir(path, mode), 'm', path);
}

void* mmap(void* address, size_t size, int protection, int flags, int fd, off_t offset) noexcept {
  REAL(mmap);
  return Map(real_mmap, address, size, protection, flags, fd, offset);
}
void* mmap64(void* address, size_t size, int protection, int flags, int fd,
             off64_t offset) noexcept {
  REAL(mmap64);
  return Map(real_mmap64, address, size, protection, flags, fd, offset);
}

}  // extern "C"
