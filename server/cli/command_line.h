// SPDX-License-Identifier: Apache-2.0
// A command line as documents.h shows it: names and texts, without CLI11.
#ifndef TENSORD_SERVER_CLI_COMMAND_LINE_H_
#define TENSORD_SERVER_CLI_COMMAND_LINE_H_

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace tensord::server {

struct CommandFlag {
  std::vector<std::string> names;  // "--limit", "-n": long ones first
  std::string help;
  std::string environment;  // the variable that it has otherwise; empty: none
  bool takes_value = false;
};

struct CommandArgument {
  std::string name;
  std::string help;
  bool required = false;
};

struct CommandLine {
  std::string name;
  std::string help;
  std::vector<CommandFlag> flags;
  std::vector<CommandArgument> arguments;
  std::vector<CommandLine> commands;
};

CommandLine ReadCommandLine(const CLI::App& app);

}  // namespace tensord::server

#endif  // TENSORD_SERVER_CLI_COMMAND_LINE_H_
