// SPDX-License-Identifier: Apache-2.0
// Files in the form of tar (POSIX.1-1988, ustar), of plain entries that differ in name and content
// alone: equal entries make equal files, and what was changed anywhere outside of a content is no
// file of ours. `tar` lists and unpacks them.
#ifndef TENSORD_SERVER_ARCHIVE_TAR_H_
#define TENSORD_SERVER_ARCHIVE_TAR_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "base/status.h"

namespace tensord::archive {

// Writes beside `path`, and is there once it is finished.
class TarWriter {
 public:
  static absl::StatusOr<TarWriter> Create(const std::string& path);
  TarWriter(TarWriter&& other) noexcept;
  // Removes what was not finished.
  ~TarWriter();

  // A name has at most 100 bytes, a content less than 8 GiB.
  absl::Status Add(std::string_view name, std::string_view content);
  // On disk, under its path, over what was there.
  absl::Status Finish();
  uint64_t bytes() const { return bytes_; }

 private:
  TarWriter(int fd, std::string path, std::string fresh);
  absl::Status Write(std::string_view bytes);

  int fd_;
  std::string path_;
  std::string fresh_;  // where it is written; empty once it is finished
  uint64_t bytes_ = 0;
};

class TarReader {
 public:
  struct Entry {
    uint64_t offset = 0;  // of its content
    uint64_t bytes = 0;
  };

  // Looks at everything but contents. DataLoss says what is wrong and where: it is none, was cut
  // short or changed, or has a name twice. Any other error is the file system's.
  static absl::StatusOr<TarReader> Open(const std::string& path);
  TarReader(TarReader&& other) noexcept;
  ~TarReader();

  const std::map<std::string, Entry, std::less<>>& entries() const { return entries_; }
  // Of the entry that is written last; empty: there is none.
  const std::string& last() const { return last_; }
  // The content, or its first `most` bytes.
  absl::StatusOr<std::string> Read(const Entry& entry, uint64_t most) const;

 private:
  explicit TarReader(int fd) : fd_(fd) {}
  absl::Status Scan(uint64_t size);  // of the file

  int fd_;
  std::map<std::string, Entry, std::less<>> entries_;
  std::string last_;
};

}  // namespace tensord::archive

#endif  // TENSORD_SERVER_ARCHIVE_TAR_H_
