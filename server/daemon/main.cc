// SPDX-License-Identifier: Apache-2.0
// tensord: the compile daemon.
#include <absl/strings/str_join.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <map>
#include <string>

#include "base/version.h"
#include "server/cli/documents.h"
#include "server/config/config.h"
#include "server/daemon/daemon.h"
#include "server/daemon/fill_stats.h"

namespace server = tensord::server;

int main(int argc, char** argv) {
  CLI::App app(
      "tensord compiles tensor programs for torch.compile.\n"
      "A flag beats the environment, which beats the configuration file.\n"
      "Exit codes: 0 stopped, 1 error, 2 usage or configuration, 3 another daemon serves "
      "this socket.",
      "tensord");
  std::map<std::string, std::string> given;
  std::string file;
  std::string shell;
  bool print = false, print_metrics = false, print_manual = false;
  app.set_version_flag("--version", tensord::Version());
  app.add_option("--config", file,
                 "configuration file (default: ~/.config/tensord/tensord.toml, "
                 "/etc/tensord/tensord.toml)")
      ->envname("TENSORD_CONFIG");
  app.add_flag("--print-config", print, "print every value and where it came from, then exit");
  app.add_flag("--print-metrics", print_metrics,
               "print what Prometheus would find of a daemon that has done nothing, then exit");
  app.add_option("--print-completion", shell,
                 "print a script by which that shell completes flags: " +
                     absl::StrJoin(server::Shells(), ", "))
      ->check(CLI::IsMember(server::Shells()));
  app.add_flag("--print-man", print_manual, "print the manual, as a page for man(1)");
  for (const server::Option& option : server::Options()) {
    std::string help = option.help;
    if (option.env != nullptr) help += std::string(" [") + option.env + "]";
    const std::string key = option.key;
    app.add_option_function<std::string>(
           option.Flag(), [&given, key](const std::string& value) { given[key] = value; }, help)
        ->take_last();
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? server::kExitOk : server::kExitUsage;
  }
  if (!shell.empty() || print_manual) {
    const std::string text =
        print_manual ? server::ManualPage(app, 8) : server::CompletionScript(app, shell);
    std::fputs(text.c_str(), stdout);
    return server::kExitOk;
  }
  if (print_metrics) {
    std::fputs(server::MetricsOfNewDaemon().c_str(), stdout);
    return server::kExitOk;
  }
  const auto config = server::LoadConfig(given, file);
  if (!config.ok()) {
    std::fprintf(stderr, "tensord: %s\n", std::string(config.status().message()).c_str());
    return server::kExitUsage;
  }
  if (print) {
    std::fputs(server::PrintConfig(*config).c_str(), stdout);
    return server::kExitOk;
  }
  return server::RunDaemon(*config);
}
