// SPDX-License-Identifier: Apache-2.0
#include "server/cli/command_line.h"

#include <CLI/CLI.hpp>

namespace tensord::server {

CommandLine ReadCommandLine(const CLI::App& app) {
  CommandLine line{app.get_name(), app.get_description(), {}, {}, {}};
  for (const CLI::Option* option : app.get_options([](const CLI::Option*) { return true; })) {
    if (option->get_lnames().empty() && option->get_snames().empty()) {
      line.arguments.push_back(
          {option->get_name(), option->get_description(), option->get_required()});
      continue;
    }
    CommandFlag flag{
        {}, option->get_description(), option->get_envname(), option->get_items_expected_max() > 0};
    for (const std::string& name : option->get_lnames()) flag.names.push_back("--" + name);
    for (const std::string& name : option->get_snames()) flag.names.push_back("-" + name);
    line.flags.push_back(std::move(flag));
  }
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    line.commands.push_back(ReadCommandLine(*command));
  }
  return line;
}

}  // namespace tensord::server
