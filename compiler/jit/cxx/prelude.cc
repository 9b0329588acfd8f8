// SPDX-License-Identifier: Apache-2.0
#include "compiler/jit/cxx/prelude.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <stdio.h>

#include "base/sha256.h"
#include "compiler/jit/cxx/host_program.h"
#include "compiler/jit/folder.h"
#include "compiler/jit/seal.h"
#include "kernels/embedded.h"

namespace tensord::jit {
namespace {

// Gives `fresh` the name `folder`, unless another process was first with a sound one.
absl::StatusOr<std::string> PublishInPlaceOf(TemporaryFolder& fresh, const std::string& folder,
                                             const std::string& work_folder,
                                             const std::string& seal_key) {
  TENSORD_ASSIGN_OR_RETURN(bool published, fresh.Publish(folder));
  if (published || IsSealed(folder, seal_key)) return folder;
  // Out of the way in one step; it goes with the temporary folder.
  TENSORD_ASSIGN_OR_RETURN(const TemporaryFolder damaged, TemporaryFolder::Make(work_folder));
  rename(folder.c_str(), (damaged.path() + "/damaged").c_str());
  TENSORD_ASSIGN_OR_RETURN(published, fresh.Publish(folder));
  if (published || IsSealed(folder, seal_key)) return folder;
  return absl::InternalError(absl::StrCat("another process keeps changing ", folder));
}

}  // namespace

absl::StatusOr<std::string> PreparePrelude(const CxxToolchain& toolchain,
                                           const std::string& work_folder,
                                           const std::string& seal_key) {
  // The path too: two compilers of one version may still read only their own precompiled headers.
  const std::string key = ToHex(Sha256(absl::StrCat(toolchain.path, "\n", toolchain.id)));
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
  return PublishInPlaceOf(fresh, folder, work_folder, seal_key);
}

}  // namespace tensord::jit
