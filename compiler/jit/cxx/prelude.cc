// SPDX-License-Identifier: Apache-2.0
#include "compiler/jit/cxx/prelude.h"

#include <absl/cleanup/cleanup.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>

#include "base/sha256.h"
#include "compiler/jit/cxx/host_program.h"
#include "compiler/jit/folder.h"
#include "compiler/jit/seal.h"
#include "kernels/embedded.h"

namespace tensord::jit {
namespace {

// Gives `fresh` the name `folder`, unless another process was first with a sound one. There is a
// folder of that name all the time: others compile with it.
absl::StatusOr<std::string> PublishInPlaceOf(TemporaryFolder& fresh, const std::string& folder,
                                             const std::string& seal_key) {
  TENSORD_ASSIGN_OR_RETURN(const bool published, fresh.Publish(folder));
  if (published || IsSealed(folder, seal_key)) return folder;
  // One process after the other: what the first has put there is sound for the second.
  const int lock = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const absl::Cleanup unlock = [lock] {
    if (lock >= 0) close(lock);
  };
  if (lock < 0 || flock(lock, LOCK_EX) != 0) {
    return absl::InternalError(absl::StrCat("cannot lock ", folder, ": ", strerror(errno)));
  }
  if (IsSealed(folder, seal_key)) return folder;
  // The damaged one goes with the temporary folder.
  if (renameat2(AT_FDCWD, fresh.path().c_str(), AT_FDCWD, folder.c_str(), RENAME_EXCHANGE) != 0) {
    return absl::InternalError(absl::StrCat("cannot replace ", folder, ": ", strerror(errno)));
  }
  return folder;
}

}  // namespace

absl::StatusOr<std::string> PreparePrelude(const CxxToolchain& toolchain,
                                           const std::string& work_folder,
                                           const std::string& seal_key) {
  // The path too: two compilers of one version may still read only their own precompiled headers.
  // And the seal's key: who has another one keeps its own.
  const std::string key =
      ToHex(Sha256Fields().Add(toolchain.path).Add(toolchain.id).Add(seal_key).Finish());
  const std::string folder = absl::StrCat(work_folder, "/prelude-", key.substr(0, 24));
  if (IsSealed(folder, seal_key)) return folder;

  TENSORD_ASSIGN_OR_RETURN(TemporaryFolder fresh, TemporaryFolder::Make(work_folder));
  for (const char* part : {"cpu", "special"})
    TENSORD_RETURN_IF_ERROR(MakeFolders(absl::StrCat(fresh.path(), "/tensord/", part)));
  for (const kernels::EmbeddedFile& file : kernels::CpuPrelude())
    TENSORD_RETURN_IF_ERROR(WriteFile(fresh.path() + "/" + std::string(file.path), file.contents));

  std::vector<std::string> command = {toolchain.path};
  command.insert(command.end(), toolchain.flags.begin(), toolchain.flags.end());
  for (const char* word : {"-I.", "-x", "c++-header", "tensord/cpu.h", "-o", "tensord/cpu.h.gch"})
    command.push_back(word);
  TENSORD_ASSIGN_OR_RETURN(const ProcessResult result, RunHostProgram(command, fresh.path()));
  if (result.exit_code != 0)
    return absl::InternalError(absl::StrCat("the prelude does not compile (exit ", result.exit_code,
                                            "):\n", absl::StrJoin(command, " "), "\n",
                                            result.output));
  TENSORD_RETURN_IF_ERROR(Seal(fresh.path(), seal_key));
  return PublishInPlaceOf(fresh, folder, seal_key);
}

}  // namespace tensord::jit
