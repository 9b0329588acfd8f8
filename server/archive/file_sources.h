// SPDX-License-Identifier: Apache-2.0
// What in a file of `tensorctl export` other builds and other hosts compile again: its frames, and
// of its programs for what they were compiled. Such a file may be of any build.
#ifndef TENSORD_SERVER_ARCHIVE_FILE_SOURCES_H_
#define TENSORD_SERVER_ARCHIVE_FILE_SOURCES_H_

#include <functional>
#include <memory>
#include <string>

#include "base/status.h"
#include "server/archive/listed_file.h"
#include "tensord/v1/artifact.pb.h"
#include "tensord/v1/frame.pb.h"

namespace tensord::archive {

class FileSources {
 public:
  // Verifies the whole file; `keys` outlive it. DataLoss says what is wrong with it and what to do.
  // FailedPrecondition: its frames are of another format, so that no job would ask for them.
  static absl::StatusOr<FileSources> Open(const std::string& path, fleet::Keys& keys);

  // Show each, in the order of the list. What the function returns ends it. Aborted: the file has
  // changed meanwhile.
  absl::Status ShowPrograms(const std::function<absl::Status(const v1::Artifact&)>& show) const;
  absl::Status ShowFrames(const std::function<absl::Status(const v1::Frame&)>& show) const;

 private:
  explicit FileSources(std::unique_ptr<ListedFile> file) : file_(std::move(file)) {}
  using OnParcel = std::function<absl::Status(const fleet::Parcel& parcel)>;
  absl::Status Show(const std::string& kind, const OnParcel& show) const;

  std::unique_ptr<ListedFile> file_;
};

}  // namespace tensord::archive

#endif  // TENSORD_SERVER_ARCHIVE_FILE_SOURCES_H_
