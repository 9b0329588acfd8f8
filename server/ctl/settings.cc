// SPDX-License-Identifier: Apache-2.0
#include "server/ctl/settings.h"

#include <absl/strings/str_cat.h>

#include <algorithm>

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

absl::StatusOr<std::string> CompilerBuild(const Config& config) {
  TENSORD_ASSIGN_OR_RETURN(const std::string binary, store::ReadFile(config.worker));
  return Sha256(binary);
}

}  // namespace tensord::server
