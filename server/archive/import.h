// SPDX-License-Identifier: Apache-2.0
// A file of `tensorctl export` into a store. The whole file is verified first, so that of one that
// was damaged, cut short or forged nothing enters; then program after program and frame after frame
// does, each whole, verified once more as it is read, and signed by the store as its own.
#ifndef TENSORD_SERVER_ARCHIVE_IMPORT_H_
#define TENSORD_SERVER_ARCHIVE_IMPORT_H_

#include <string>
#include <vector>

#include "base/status.h"
#include "server/archive/kinds.h"
#include "server/fleet/keys.h"
#include "server/store/store.h"

namespace tensord::archive {

struct Imported : Taken {
  std::vector<std::string> toolchains;  // of programs: ids
};

// What is in a file that is whole, signed by one of `keys`, and of this build. DataLoss says what
// is wrong with it and what to do. FailedPrecondition: it is sound, and of another build or format.
absl::StatusOr<Imported> CheckFile(fleet::Keys& keys, const std::string& compiler_build,
                                   const std::string& path);
// Checks the file, then brings it in. ResourceExhausted: the disk did not take all; what was taken
// stays, whole.
absl::StatusOr<Imported> Import(store::Store& store, fleet::Keys& keys,
                                const std::string& compiler_build, const std::string& path);

}  // namespace tensord::archive

#endif  // TENSORD_SERVER_ARCHIVE_IMPORT_H_
