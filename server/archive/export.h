// SPDX-License-Identifier: Apache-2.0
// Programs and frames of a store as one signed file (contents.h), one manifest with its blobs at a
// time: what memory is taken does not grow with the store. Equal programs, frames and keys make
// equal files.
#ifndef TENSORD_SERVER_ARCHIVE_EXPORT_H_
#define TENSORD_SERVER_ARCHIVE_EXPORT_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/status.h"
#include "server/archive/kinds.h"
#include "server/fleet/keys.h"
#include "server/store/store.h"

namespace tensord::archive {

// What is to be exported, by keys; frames by place (server/frames/frame_place.h).
struct Selection {
  std::set<std::string> programs;
  std::map<std::string, std::set<std::string>> frames;
};
absl::StatusOr<Selection> SelectAll(store::Store& store);
// What processes of the job used and is stored still (server/jobs). NotFound: the store knows of no
// such job.
absl::StatusOr<Selection> SelectJob(store::Store& store, const std::string& job);
// Each is the beginning of a program's key or of a frame's, in bytes. NotFound,
// FailedPrecondition: none begins with it, or several do.
absl::StatusOr<Selection> SelectKeys(store::Store& store, const std::vector<std::string>& prefixes);

struct Exported {
  uint64_t programs = 0;
  uint64_t frames = 0;
  uint64_t of_others = 0;             // programs of other builds, frames of other formats
  std::vector<std::string> left_out;  // what was selected and has gone or is damaged, and why
  std::vector<Toolchain> toolchains;  // of programs
  uint64_t bytes = 0;                 // of the file
};

// What another build made is left out, for no host would ask for it beside what `compiler_build`
// made. Of a file that is not finished nothing stays. FailedPrecondition: `keys` cannot
// sign; nothing is left to be exported.
absl::StatusOr<Exported> Export(store::Store& store, fleet::Keys& keys, const Selection& selection,
                                const std::string& compiler_build, const std::string& path);

}  // namespace tensord::archive

#endif  // TENSORD_SERVER_ARCHIVE_EXPORT_H_
