// SPDX-License-Identifier: Apache-2.0
// Lowers one nest to functions of the kernel IR: what all targets share.
#ifndef TENSORD_COMPILER_CODEGEN_NEST_H_
#define TENSORD_COMPILER_CODEGEN_NEST_H_

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "compiler/codegen/accumulators.h"
#include "compiler/codegen/body.h"

namespace tensord::compiler {

// A loop that runs in parts of so many iterations, with statements before and behind each.
struct LoopParts {
  int64_t iterations = 0;
  bool are_even = false;  // the last part has as many
  ir::Block before, behind;
};
// `loop` from `first` to `last`, the iterations of each part: `within` writes those between two.
ir::Statement InParts(const std::string& loop, const ir::Value& first, const ir::Value& last,
                      LoopParts parts,
                      const std::function<ir::Block(ir::Value, ir::Value)>& within);

class NestLowering {
 protected:
  NestLowering(const Nest& nest, BodyLowering* body, Accumulators* accumulators)
      : nest_(nest), body_base_(body), accumulators_base_(accumulators) {}

  bool HasVectorLoop() const { return !nest_.inner.empty(); }
  // The first inner loop, and the last.
  int FirstInner() const { return static_cast<int>(nest_.outer.size()); }
  int VectorLoop() const { return VectorLoopOf(nest_).second; }
  // Of passes and row statements, in order.
  std::set<int> Positions() const;

  // The innermost statements of one pass, into the body's levels.
  void LowerMembers(int position, PassPart part = {});
  // The statements between two passes.
  ir::Block RowStatements(int position);
  // The inner loops but the vector loop around what the levels say and `inside`, which has the
  // innermost `inside_loops` of them, with their levels, already. Inner loop number `parted` runs
  // in parts.
  ir::Block InnerLoops(ir::Block inside, int inside_loops = 0, int parted = -1,
                       const LoopParts& parts = {});

 private:
  // Whether a member behind this position loads the buffer.
  bool ReadLater(BufferId buffer, int position) const;

 protected:
  const Nest& nest_;

 private:
  BodyLowering* body_base_;
  Accumulators* accumulators_base_;
};

// What a value that numbers the iterations of loops says of each of them. The last one goes by
// `last_width` elements (W).
struct DecodedLoops {
  std::vector<Expr> extents;
  int first_loop = 0;
  ir::Value number;
  int last_width = 1;
};
ir::Block DecodeLoops(BodyLowering* body, const DecodedLoops& loops);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_CODEGEN_NEST_H_
