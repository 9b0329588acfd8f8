// SPDX-License-Identifier: Apache-2.0
// Kernels that do not compile: their operators become library calls, and the graph is compiled
// again.
#ifndef TENSORD_SERVER_PROGRAM_LIBRARY_NODES_H_
#define TENSORD_SERVER_PROGRAM_LIBRARY_NODES_H_

#include <set>
#include <string>
#include <vector>

#include "tensord/v1/worker.pb.h"

namespace tensord::server {

// How often a graph is compiled at most. Each time makes at least one more operator a library call;
// a kernel rarely holds more than a few that its description does not name.
inline constexpr int kLibraryRounds = 8;

// What a program's fusion notes say of a unit with that log.
std::string LibraryNote(const std::string& log);

// A unit that the JIT could not compile.
struct FailedUnit {
  std::vector<std::string> nodes;  // of the graph, by name
  std::string log;
};

// Adds the nodes of failed units to `library`. A kernel also computes what its nodes read, where
// that was not worth memory of its own: when all of a unit's nodes are there already, what they
// read is added. False when nothing was added, so that compiling again would give the same.
bool AddLibraryNodes(const v1::Graph& graph, const std::vector<FailedUnit>& failed,
                     std::set<std::string>* library);

}  // namespace tensord::server

#endif  // TENSORD_SERVER_PROGRAM_LIBRARY_NODES_H_
