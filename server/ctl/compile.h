// SPDX-License-Identifier: Apache-2.0
// `tensorctl compile`: programs into a store before a job asks for them, on a machine without a GPU
// say. With or without a daemon.
#ifndef TENSORD_SERVER_CTL_COMPILE_H_
#define TENSORD_SERVER_CTL_COMPILE_H_

#include <string>
#include <vector>

#include "server/ctl/settings.h"

namespace tensord::server {

struct CompileCommand {
  // Where graphs come from: any of these.
  std::vector<std::string> files;
  bool frames = false;      // of the store
  std::string job;          // of frames that it used; the programs are added to its list
  std::string export_file;  // of its frames

  std::vector<std::string> targets;  // empty: those of programs that are there
  bool dumps = false;                // what passes make of one file, instead of programs
  std::string dump_after;            // of this pass; empty: of all
  Settings settings;
  bool json = false;
};

// The command with its arguments, of which `compile` has what was given; it outlives the app.
CLI::App* AddCompile(CLI::App& app, CompileCommand* compile);

// Prints what became of each graph, and returns the exit code: 0 where every graph has its
// programs, 1 where one failed or none was for a target, 2 where nothing is to be compiled.
int Compile(const CompileCommand& command);

}  // namespace tensord::server

#endif  // TENSORD_SERVER_CTL_COMPILE_H_
