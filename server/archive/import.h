// SPDX-License-Identifier: Apache-2.0
// A file of `tensorctl export` into a store. The whole file is verified first, so that of one that
// was damaged, cut short or forged nothing enters; then program after program and frame after frame
// does, each whole, verified once more as it is read, and signed by the store as its own.
#ifndef TENSORD_SERVER_ARCHIVE_IMPORT_H_
#define TENSORD_SERVER_ARCHIVE_IMPORT_H_

#include <functional>
#include <string>
#include <vector>

#include "base/status.h"
#include "server/archive/kinds.h"
#include "server/fleet/keys.h"
#include "server/store/store.h"

namespace tensord::archive {

// What this host would ask a store for.
struct Host {
  std::string compiler_build;
  // The id of the toolchain that it has for a target. An error: it has none, or it is not known.
  // Empty: toolchains do not count.
  std::function<absl::StatusOr<std::string>(const std::string& target)> toolchain;
};

struct Imported : Taken {
  std::vector<Toolchain> toolchains;  // of programs
};

// What is in a file that is whole, signed by one of `keys`, and of this build. DataLoss says what
// is wrong with it and what to do. FailedPrecondition: it is sound, and of another build or format,
// or all toolchains of its programs that could be compared are others.
absl::StatusOr<Imported> CheckFile(fleet::Keys& keys, const Host& host, const std::string& path);
// Checks the file, then brings it in. ResourceExhausted: the disk did not take all; what was taken
// stays, whole.
absl::StatusOr<Imported> Import(store::Store& store, fleet::Keys& keys, const Host& host,
                                const std::string& path);

}  // namespace tensord::archive

#endif  // TENSORD_SERVER_ARCHIVE_IMPORT_H_
