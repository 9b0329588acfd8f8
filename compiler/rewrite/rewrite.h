// SPDX-License-Identifier: Apache-2.0
// Rewrites of the captured graph that pay before it becomes loops: other library calls, other
// shapes or layouts for them. Each pass is a file of its own; rewrite.cc lists them.
//
// Requires: a verified graph. Ensures: a verified graph with the same inputs and with outputs of
// the same sizes, strides and dtypes, equal up to rounding.
#ifndef TENSORD_COMPILER_REWRITE_REWRITE_H_
#define TENSORD_COMPILER_REWRITE_REWRITE_H_

#include <cstdint>
#include <vector>

#include "compiler/graph/graph.h"
#include "tensord/v1/artifact.pb.h"

namespace tensord::compiler {

enum class Targets : uint8_t { kCuda, kBoth };
// Whether narrow floats are rounded where eager rounds them, and only there, or elsewhere too.
enum class Roundings : uint8_t { kSame, kOther };

struct GraphRewrite {
  const char* name;
  // How often it changed something.
  int (*run)(const v1::Target& target, Graph* graph);
  Targets targets;
  Roundings roundings = Roundings::kSame;

  bool IsFor(const v1::Target& target) const {
    return target.has_cuda() || targets == Targets::kBoth;
  }
};

// In the order in which they run; VerifyGraph holds behind each.
const std::vector<GraphRewrite>& RewritePasses();

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_REWRITE_REWRITE_H_
