// SPDX-License-Identifier: Apache-2.0
#include "server/archive/import.h"

#include <absl/strings/str_cat.h>

#include <memory>
#include <utility>
#include <vector>

#include "base/version.h"
#include "server/archive/listed_file.h"

namespace tensord::archive {
namespace {

absl::Status CompareToolchains(const std::vector<Toolchain>& toolchains, const Host& host) {
  absl::Status others;
  for (const Toolchain& toolchain : toolchains) {
    const auto own = host.toolchain(toolchain.target);
    if (!own.ok()) continue;
    if (*own == toolchain.id) return absl::OkStatus();
    others = absl::FailedPreconditionError(absl::StrCat(
        "its programs for ", toolchain.target, " were compiled with ", Describe(toolchain),
        " and its options, this host has ", Describe({toolchain.target, *own}),
        " and would never find them; where it is for another host, say "
        "--any-toolchain"));
  }
  return others;
}

// Whether anything of it would be found on this host.
absl::Status Compare(const v1::FleetContents& contents, const std::vector<Toolchain>& toolchains,
                     const Host& host) {
  const char* const differs = contents.frame_format() != kFrameFormat ? "format of frames"
                              : contents.compiler_build() != host.compiler_build
                                  ? "build of the compiler"
                                  : nullptr;
  if (differs != nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("it was exported by tensord ", contents.version(), " with another ", differs,
                     ", so that nothing of it would ever be found here: export it with the same "
                     "build as this one"));
  }
  return host.toolchain ? CompareToolchains(toolchains, host) : absl::OkStatus();
}

absl::Status TakeAll(ListedFile& file, store::Store& store, Taken& taken) {
  for (const v1::FleetListing& listing : file.contents().manifests()) {
    const auto listed = file.Get(listing);
    absl::Status status = listed.ok() ? Take(store, file.exchange(), listed->name, listed->manifest,
                                             absl::InfiniteFuture(), taken)
                                      : listed.status();
    // It was sound a moment ago.
    if (absl::IsDataLoss(status) || absl::IsNotFound(status)) {
      status = absl::AbortedError(absl::StrCat("the file has changed: ", status.message()));
    }
    if (!status.ok()) {
      return absl::Status(status.code(),
                          absl::StrCat(listing.name(), ": ", status.message(), " (", taken.programs,
                                       " programs and ", taken.frames,
                                       " frames are stored; import it again for the rest)"));
    }
  }
  return absl::OkStatus();
}

// `store`: null for none.
absl::StatusOr<Imported> Read(store::Store* store, fleet::Keys& keys, const Host& host,
                              const std::string& path) {
  TENSORD_ASSIGN_OR_RETURN(const std::unique_ptr<ListedFile> file, ListedFile::Open(path, keys));
  Imported found;
  for (const v1::FleetToolchain& toolchain : file->contents().toolchains()) {
    found.toolchains.push_back({toolchain.target(), toolchain.id()});
  }
  TENSORD_RETURN_IF_ERROR(Compare(file->contents(), found.toolchains, host));
  TENSORD_ASSIGN_OR_RETURN(const Taken checked, file->Check());
  if (store == nullptr) {
    static_cast<Taken&>(found) = checked;
    return found;
  }
  TENSORD_RETURN_IF_ERROR(TakeAll(*file, *store, found));
  return found;
}

}  // namespace

absl::StatusOr<Imported> CheckFile(fleet::Keys& keys, const Host& host, const std::string& path) {
  auto found = Read(nullptr, keys, host, path);
  if (!found.ok()) return WithAdvice(path, found.status());
  return found;
}

absl::StatusOr<Imported> Import(store::Store& store, fleet::Keys& keys, const Host& host,
                                const std::string& path) {
  auto taken = Read(&store, keys, host, path);
  if (!taken.ok()) return WithAdvice(path, taken.status());
  return taken;
}

}  // namespace tensord::archive
