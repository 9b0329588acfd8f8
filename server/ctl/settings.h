// SPDX-License-Identifier: Apache-2.0
// The daemon's configuration, for commands of tensorctl that work on its store or its fleet: the
// same file, variables and flags.
#ifndef TENSORD_SERVER_CTL_SETTINGS_H_
#define TENSORD_SERVER_CTL_SETTINGS_H_

#include <CLI/CLI.hpp>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "server/config/config.h"
#include "server/fleet/keys.h"

namespace tensord::server {

// What the command line said.
struct Settings {
  std::map<std::string, std::string> flags;  // by key
  std::string file;                          // of the configuration; empty: the default places
};

// Gives a command the flags of these keys, and --config. `settings` outlives the application.
void AddSettings(CLI::App* command, const std::vector<std::string>& keys, Settings* settings);

// Whose signatures count, and with `signs` by which this host signs. FailedPrecondition: none is
// configured.
absl::StatusOr<std::unique_ptr<fleet::Keys>> OpenKeys(const Config& config, bool signs);

// What program keys hold besides the graph. The digest of tensord-worker; NotFound: there is none.
absl::StatusOr<std::string> CompilerBuild(const Config& config);
// The id of the toolchain that a worker of that configuration has for a target, "cpu avx2" say.
// FailedPrecondition: none, in the worker's words.
absl::StatusOr<std::string> FindToolchain(const Config& config, const std::string& target);

}  // namespace tensord::server

#endif  // TENSORD_SERVER_CTL_SETTINGS_H_
