// SPDX-License-Identifier: Apache-2.0
// What shells and `man` want to know of a command line, written from what CLI11 knows of it.
#ifndef TENSORD_SERVER_CLI_DOCUMENTS_H_
#define TENSORD_SERVER_CLI_DOCUMENTS_H_

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace tensord::server {

// bash, zsh, fish.
const std::vector<std::string>& Shells();

// A script by which the shell completes subcommands, flags, and files as their values. Requires:
// one of Shells().
std::string CompletionScript(const CLI::App& app, const std::string& shell);

// A page of that section of the manual (1 for commands, 8 for daemons), in man(7)'s language.
std::string ManualPage(const CLI::App& app, int section);

}  // namespace tensord::server

#endif  // TENSORD_SERVER_CLI_DOCUMENTS_H_
