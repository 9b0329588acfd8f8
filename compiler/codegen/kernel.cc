// SPDX-License-Identifier: Apache-2.0
#include "compiler/codegen/kernel.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <absl/strings/str_split.h>

#include <set>

namespace tensord::compiler {

std::vector<LaunchInterface> LaunchesOf(const std::vector<KernelSource>& kernels) {
  std::vector<LaunchInterface> launches;
  for (const KernelSource& kernel : kernels) launches.push_back(kernel.launch);
  return launches;
}

std::vector<std::string> NodesOf(const Kernel& kernel) {
  std::vector<std::string> names;
  std::set<std::string> seen;
  for (const Nest& nest : kernel.nests) {
    for (const NestMember& member : nest.members) {
      for (absl::string_view name : absl::StrSplit(member.loops.origin, ", ")) {
        if (seen.emplace(name).second) names.emplace_back(name);
      }
    }
  }
  return names;
}

std::string DescribeNodes(std::vector<std::string> names) {
  constexpr size_t kMostNames = 8;
  const size_t more = names.size() > kMostNames ? names.size() - kMostNames : 0;
  names.resize(names.size() - more);
  std::string text = absl::StrJoin(names, ", ");
  if (more > 0) absl::StrAppend(&text, " and ", more, " more");
  return text;
}

}  // namespace tensord::compiler
