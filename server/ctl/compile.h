// SPDX-License-Identifier: Apache-2.0
// `tensorctl compile`: asks the compiler itself, without a daemon.
#ifndef TENSORD_SERVER_CTL_COMPILE_H_
#define TENSORD_SERVER_CTL_COMPILE_H_

#include <string>

namespace tensord::server {

struct CompileCommand {
  std::string file;        // a job of <store>/repros/, or a graph
  std::string dump_after;  // "" for all passes
  std::string target;      // "" as the file says
};

// Becomes the tensord-worker beside this program, whose output and exit code are the command's. So
// it returns only where that cannot be started: with 1, and the reason on stderr.
int Compile(const CompileCommand& command);

}  // namespace tensord::server

#endif  // TENSORD_SERVER_CTL_COMPILE_H_
