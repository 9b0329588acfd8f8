// SPDX-License-Identifier: Apache-2.0
#include "server/ctl/settings.h"

#include <absl/strings/ascii.h>
#include <absl/strings/str_replace.h>
#include <absl/strings/str_split.h>

#include <algorithm>
#include <utility>

#include "base/process.h"
#include "base/sha256.h"
#include "server/store/blobs.h"

namespace tensord::server {

void AddSettings(CLI::App* command, const std::vector<std::string>& keys, Settings* settings) {
  command->add_option("--config", settings->file, "the daemon's configuration file")
      ->envname("TENSORD_CONFIG");
  for (const Option& option : Options()) {
    const std::string key = option.key;
    if (std::find(keys.begin(), keys.end(), key) == keys.end()) continue;
    command
        ->add_option_function<std::string>(
            option.Flag(),
            [settings, key](const std::string& value) { settings->flags[key] = value; },
            option.help)
        ->take_last();
  }
}

absl::StatusOr<std::unique_ptr<fleet::Keys>> OpenKeys(const Config& config, bool signs) {
  if (signs && config.fleet_sign_key.empty()) {
    return absl::FailedPreconditionError(
        "an export is signed: give --fleet-sign-key (tensorctl fleet-key makes one)");
  }
  if (config.fleet_sign_key.empty() && config.fleet_trust.empty()) {
    return absl::FailedPreconditionError(
        "give --fleet-trust, a file of the keys whose exports are accepted");
  }
  // Whoever only reads needs no private key.
  return fleet::Keys::Open(signs || config.fleet_trust.empty() ? config.fleet_sign_key : "",
                           config.fleet_trust);
}

absl::StatusOr<std::string> CompilerBuild(const Config& config) {
  TENSORD_ASSIGN_OR_RETURN(const std::string binary, store::ReadFile(config.worker));
  return Sha256(binary);
}

absl::StatusOr<std::string> FindToolchain(const Config& config, const std::string& target) {
  // As tensord-worker has it: "avx2", "sm_90".
  const std::string name =
      absl::StrReplaceAll(target.substr(target.find(' ') + 1), {{"sm", "sm_"}});
  Command command;
  command.argv = {config.worker, "--toolchain", name, "--cxx", config.cxx};
  for (const std::string& flag :
       std::vector<std::string>(absl::StrSplit(config.cxx_flags, ' ', absl::SkipEmpty()))) {
    command.argv.push_back("--flag=" + flag);
  }
  if (!config.nvrtc.empty()) command.argv.push_back("--nvrtc=" + config.nvrtc);
  TENSORD_ASSIGN_OR_RETURN(const ProcessResult result, RunProcess(std::move(command)));
  const std::string said(absl::StripAsciiWhitespace(result.output));
  return result.exit_code == 0 ? absl::StatusOr<std::string>(said)
                               : absl::FailedPreconditionError(said);
}

}  // namespace tensord::server
