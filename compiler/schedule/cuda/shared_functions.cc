// SPDX-License-Identifier: Apache-2.0
#include "compiler/schedule/cuda/shared_functions.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <map>

#include "compiler/schedule/equal_nests.h"

namespace tensord::compiler {
namespace {

// The text of a symbolic size depends on which others the function knows.
bool HasSizesInIndices(const Nest& nest) {
  const auto has_size = [](const Expr& e) { return sym::ContainsKind(e, sym::AtomKind::kSize); };
  return std::any_of(nest.members.begin(), nest.members.end(), [&](const NestMember& member) {
    const std::vector<Inst>& insts = member.loops.block.insts;
    const std::vector<Store>& stores = member.loops.stores;
    return std::any_of(insts.begin(), insts.end(),
                       [&](const Inst& inst) {
                         return inst.kind != InstKind::kIndirect && has_size(inst.index);
                       }) ||
           std::any_of(stores.begin(), stores.end(),
                       [&](const Store& store) { return has_size(store.index); });
  });
}

}  // namespace

std::string FunctionKey(const Program& program, const Nest& nest, const CudaPlan& plan) {
  if (!plan.Is<CudaElements>() || !HasAnySize(nest) || HasSizesInIndices(nest)) return "";
  return absl::StrCat(ToString(plan), "\n", StructureText(program, nest));
}

std::vector<std::vector<size_t>> FindSharedFunctions(const std::vector<std::string>& keys) {
  std::map<std::string, size_t> group_of;
  std::vector<std::vector<size_t>> groups;
  for (size_t i = 0; i < keys.size(); ++i) {
    if (keys[i].empty()) continue;
    const auto [it, is_new] = group_of.emplace(keys[i], groups.size());
    if (is_new) groups.emplace_back();
    groups[it->second].push_back(i);
  }
  std::erase_if(groups, [](const std::vector<size_t>& group) { return group.size() < 2; });
  return groups;
}

}  // namespace tensord::compiler
