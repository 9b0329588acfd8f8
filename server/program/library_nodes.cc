// SPDX-License-Identifier: Apache-2.0
#include "server/program/library_nodes.h"

#include <map>

namespace tensord::server {
namespace {

// Adds the names of the nodes whose results `argument` refers to.
void AddProducers(const v1::Graph& graph, const v1::Argument& argument,
                  std::set<std::string>* names) {
  for (const v1::Argument& item : argument.list().items()) AddProducers(graph, item, names);
  if (!argument.has_value()) return;
  const int64_t node =
      int64_t{argument.value().value()} - graph.inputs_size() - graph.constants_size();
  if (node >= 0 && node < graph.nodes_size()) {
    names->insert(graph.nodes(static_cast<int>(node)).name());
  }
}

}  // namespace

std::string LibraryNote(const std::string& log) {
  return "library calls instead of a kernel: " + log;
}

bool AddLibraryNodes(const v1::Graph& graph, const std::vector<FailedUnit>& failed,
                     std::set<std::string>* library) {
  std::map<std::string, const v1::Node*> by_name;
  for (const v1::Node& node : graph.nodes()) by_name[node.name()] = &node;
  const size_t before = library->size();
  for (const FailedUnit& unit : failed) {
    const size_t known = library->size();
    library->insert(unit.nodes.begin(), unit.nodes.end());
    if (library->size() > known) continue;
    for (const std::string& name : unit.nodes) {
      const auto found = by_name.find(name);
      if (found == by_name.end()) continue;
      for (const v1::Argument& argument : found->second->args()) {
        AddProducers(graph, argument, library);
      }
    }
  }
  return library->size() > before;
}

}  // namespace tensord::server
