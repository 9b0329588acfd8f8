// SPDX-License-Identifier: Apache-2.0
// `tensorctl compile --dump`: what each pass makes of one graph, as the compiler itself prints it.
#ifndef TENSORD_SERVER_CTL_PASSES_H_
#define TENSORD_SERVER_CTL_PASSES_H_

#include <string>

namespace tensord::server {

struct PassesCommand {
  std::string file;        // a job of <store>/repros/, or a graph
  std::string dump_after;  // "" for all passes
  std::string target;      // scalar, avx2, avx512 or sm_NN; "" as the file says
};

// Becomes the tensord-worker beside this program, whose output and exit code are the command's. So
// it returns only where that cannot be started: with 1, and the reason on stderr.
int PrintPasses(const PassesCommand& command);

}  // namespace tensord::server

#endif  // TENSORD_SERVER_CTL_PASSES_H_
