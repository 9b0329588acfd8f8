// SPDX-License-Identifier: Apache-2.0
#include "server/archive/tar.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "base/check.h"
#include "server/log/quoted.h"
#include "server/store/blobs.h"

namespace tensord::archive {
namespace {

constexpr size_t kBlock = 512;
constexpr size_t kEnd = 2 * kBlock;  // of zeros, behind the last entry
constexpr uint64_t kMostBytes = (1ULL << 33) - 1;

// Where a header has its fields; numbers are octal digits and a zero.
struct Field {
  size_t at, size;
};
constexpr Field kName{0, 100}, kMode{100, 8}, kUser{108, 8}, kGroup{116, 8}, kSize{124, 12},
    kTime{136, 12}, kChecksum{148, 8}, kType{156, 1}, kMagic{257, 8};

void SetText(std::string& header, Field field, std::string_view text) {
  TENSORD_CHECK(text.size() <= field.size);
  header.replace(field.at, text.size(), text);
}

void SetNumber(std::string& header, Field field, uint64_t number) {
  SetText(header, field, absl::StrFormat("%0*o", static_cast<int>(field.size) - 1, number));
}

std::string HeaderOf(std::string_view name, uint64_t bytes) {
  std::string header(kBlock, '\0');
  SetText(header, kName, name);
  SetNumber(header, kMode, 0644);
  SetNumber(header, kUser, 0);
  SetNumber(header, kGroup, 0);
  SetNumber(header, kSize, bytes);
  SetNumber(header, kTime, 0);
  SetText(header, kChecksum, std::string(kChecksum.size, ' '));
  SetText(header, kType, "0");
  SetText(header, kMagic,
          std::string_view("ustar\0"
                           "00",
                           8));
  unsigned sum = 0;
  for (const char c : header) sum += static_cast<unsigned char>(c);
  SetText(header, kChecksum, absl::StrFormat("%06o", sum) + std::string("\0 ", 2));
  return header;
}

// The entry that a header of ours tells of.
std::optional<std::pair<std::string, uint64_t>> ReadHeader(std::string_view header) {
  const std::string_view name = header.substr(kName.at, kName.size);
  uint64_t bytes = 0;
  for (const char digit : header.substr(kSize.at, kSize.size - 1)) {
    if (digit < '0' || digit > '7') return std::nullopt;
    bytes = bytes * 8 + static_cast<uint64_t>(digit - '0');
  }
  std::pair<std::string, uint64_t> found(name.substr(0, name.find('\0')), bytes);
  // All else is the same in every header, or follows.
  if (found.first.empty() || HeaderOf(found.first, bytes) != header) return std::nullopt;
  return found;
}

uint64_t PaddingOf(uint64_t bytes) { return (kBlock - bytes % kBlock) % kBlock; }

bool IsZero(std::string_view bytes) {
  return bytes.find_first_not_of('\0') == std::string_view::npos;
}

// Fewer bytes where the file ends.
absl::StatusOr<std::string> ReadAt(int fd, uint64_t offset, uint64_t size) {
  std::string bytes(size, '\0');
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got =
        pread(fd, bytes.data() + done, bytes.size() - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return absl::ErrnoToStatus(errno, "cannot read it");
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  bytes.resize(done);
  return bytes;
}

absl::Status CutShort(const std::string& within) {
  return absl::DataLossError(absl::StrCat(
      "it is cut short", within.empty() ? "" : absl::StrCat(" within ", Quoted(within))));
}

}  // namespace

absl::StatusOr<TarWriter> TarWriter::Create(const std::string& path) {
  std::string fresh = path + ".XXXXXX";
  const int fd = mkostemp(fresh.data(), O_CLOEXEC);
  if (fd < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot create ", path));
  // As any other file that a program of the user makes.
  const mode_t mask = umask(0);
  umask(mask);
  fchmod(fd, 0666 & ~mask);
  return TarWriter(fd, path, std::move(fresh));
}

TarWriter::TarWriter(int fd, std::string path, std::string fresh)
    : fd_(fd), path_(std::move(path)), fresh_(std::move(fresh)) {}

TarWriter::TarWriter(TarWriter&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      path_(std::move(other.path_)),
      fresh_(std::exchange(other.fresh_, "")),
      bytes_(other.bytes_) {}

TarWriter::~TarWriter() {
  if (fd_ >= 0) close(fd_);
  if (!fresh_.empty()) unlink(fresh_.c_str());
}

absl::Status TarWriter::Write(std::string_view bytes) {
  bytes_ += bytes.size();
  return store::WriteAll(fd_, bytes, path_);
}

absl::Status TarWriter::Add(std::string_view name, std::string_view content) {
  TENSORD_CHECK(content.size() <= kMostBytes);
  TENSORD_RETURN_IF_ERROR(Write(HeaderOf(name, content.size())));
  TENSORD_RETURN_IF_ERROR(Write(content));
  return Write(std::string(PaddingOf(content.size()), '\0'));
}

absl::Status TarWriter::Finish() {
  TENSORD_RETURN_IF_ERROR(Write(std::string(kEnd, '\0')));
  if (fsync(fd_) != 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot sync ", path_));
  if (close(std::exchange(fd_, -1)) != 0 || rename(fresh_.c_str(), path_.c_str()) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot write ", path_));
  }
  fresh_.clear();
  return store::SyncFolderOf(path_.find('/') == std::string::npos ? "./" + path_ : path_);
}

absl::StatusOr<TarReader> TarReader::Open(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return absl::ErrnoToStatus(errno, "cannot open it");
  TarReader reader(fd);
  struct stat info;
  if (fstat(fd, &info) != 0) return absl::ErrnoToStatus(errno, "cannot stat it");
  if (!S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError("it is no plain file, which is read twice");
  }
  TENSORD_RETURN_IF_ERROR(reader.Scan(static_cast<uint64_t>(info.st_size)));
  return reader;
}

TarReader::TarReader(TarReader&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      entries_(std::move(other.entries_)),
      last_(std::move(other.last_)) {}

TarReader::~TarReader() {
  if (fd_ >= 0) close(fd_);
}

absl::Status TarReader::Scan(uint64_t size) {
  uint64_t padding = 0;  // of the entry before
  for (uint64_t at = 0;;) {
    TENSORD_ASSIGN_OR_RETURN(const std::string bytes, ReadAt(fd_, at, padding + kBlock));
    if (bytes.size() < padding + kBlock) return CutShort(last_);
    const std::string_view header = std::string_view(bytes).substr(padding);
    if (!IsZero(std::string_view(bytes).substr(0, padding))) {
      return absl::DataLossError(absl::StrCat("it was changed behind ", Quoted(last_)));
    }
    at += padding;
    if (IsZero(header)) {
      TENSORD_ASSIGN_OR_RETURN(const std::string end, ReadAt(fd_, at, kEnd + 1));
      if (end.size() < kEnd) return CutShort("");
      if (end.size() == kEnd && IsZero(end)) return absl::OkStatus();
      return absl::DataLossError("something was put behind its end");
    }
    auto found = ReadHeader(header);
    if (!found.has_value()) {
      return absl::DataLossError(
          last_.empty() ? "it is no tar file as tensorctl writes it"
                        : absl::StrCat("it was changed at byte ", at, ", behind ", Quoted(last_)));
    }
    auto& [name, entry_bytes] = *found;
    at += kBlock;
    if (entry_bytes > size - at) return CutShort(name);
    if (!entries_.try_emplace(name, Entry{at, entry_bytes}).second) {
      return absl::DataLossError(absl::StrCat("it has ", Quoted(name), " twice"));
    }
    last_ = std::move(name);
    at += entry_bytes;
    padding = PaddingOf(entry_bytes);
  }
}

absl::StatusOr<std::string> TarReader::Read(const Entry& entry, uint64_t most) const {
  return ReadAt(fd_, entry.offset, std::min(entry.bytes, most));
}

}  // namespace tensord::archive
