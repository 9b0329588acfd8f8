// SPDX-License-Identifier: Apache-2.0
// The daemon's configuration, for commands of tensorctl that work on its store or its fleet: the
// same file, variables and flags.
#ifndef TENSORD_SERVER_CTL_SETTINGS_H_
#define TENSORD_SERVER_CTL_SETTINGS_H_

#include <CLI/CLI.hpp>
#include <map>
#include <string>
#include <vector>

#include "server/daemon/config.h"

namespace tensord::server {

// What the command line said.
struct Settings {
  std::map<std::string, std::string> flags;  // by key
  std::string file;                          // of the configuration; empty: the default places
};

// Gives a command the flags of these keys, and --config. `settings` outlives the application.
void AddSettings(CLI::App* command, const std::vector<std::string>& keys, Settings* settings);

// The digest of tensord-worker, which program keys hold. NotFound: there is none.
absl::StatusOr<std::string> CompilerBuild(const Config& config);

}  // namespace tensord::server

#endif  // TENSORD_SERVER_CTL_SETTINGS_H_
