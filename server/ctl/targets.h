// SPDX-License-Identifier: Apache-2.0
// `tensorctl targets`: for what the programs of a store were compiled, and the files by which
// `tensorctl compile` compiles for the same elsewhere. With or without a daemon.
#ifndef TENSORD_SERVER_CTL_TARGETS_H_
#define TENSORD_SERVER_CTL_TARGETS_H_

#include <CLI/CLI.hpp>
#include <string>

namespace tensord::server {

struct TargetsCommand {
  std::string name;  // of one, which is written; empty: all are listed
  std::string file;  // where it is written; empty: standard output
  std::string store;
  bool json = false;
};

// The command with its arguments, of which `targets` has what was given; it outlives the app.
CLI::App* AddTargets(CLI::App& app, TargetsCommand* targets);

// Prints them, and returns the exit code.
int Targets(const TargetsCommand& command);

}  // namespace tensord::server

#endif  // TENSORD_SERVER_CTL_TARGETS_H_
