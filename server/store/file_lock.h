// SPDX-License-Identifier: Apache-2.0
#ifndef TENSORD_SERVER_STORE_FILE_LOCK_H_
#define TENSORD_SERVER_STORE_FILE_LOCK_H_

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <string>

namespace tensord::store {

// Held by one of all processes and threads at a time, who wait for each other; the file, which is
// made, says nothing and stays.
class FileLock {
 public:
  explicit FileLock(const std::string& path)
      : fd_(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)) {
    held_ = fd_ >= 0 && flock(fd_, LOCK_EX) == 0;
  }
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;
  ~FileLock() {
    if (fd_ >= 0) close(fd_);
  }
  // False where there is no such folder, or no descriptor.
  bool held() const { return held_; }

 private:
  const int fd_;
  bool held_ = false;
};

}  // namespace tensord::store

#endif  // TENSORD_SERVER_STORE_FILE_LOCK_H_
