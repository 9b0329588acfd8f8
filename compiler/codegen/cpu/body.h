// SPDX-License-Identifier: Apache-2.0
// The bodies of a CPU nest: rows kept in arrays, transposed operands read through tiles.
#ifndef TENSORD_COMPILER_CODEGEN_CPU_BODY_H_
#define TENSORD_COMPILER_CODEGEN_CPU_BODY_H_

#include <map>
#include <string>
#include <utility>

#include "compiler/codegen/body.h"
#include "compiler/schedule/cpu/plan.h"

namespace tensord::compiler {

// Of arrays that vectors are read from: bytes of the widest.
inline constexpr int kVectorBytes = 64;

// W, the prelude's lanes.
ir::Statement DeclareWidth();

class CpuBody : public BodyLowering {
 public:
  CpuBody(const Program& program, const Nest& nest, const CpuPlan& plan, KernelInterface* interface)
      : BodyLowering(program, nest, interface), plan_(plan) {}

  // From here on transposed loads read the rows of local tiles. EndTiles gives the statements that
  // fill the tiles, for the outer and vector loops at the tile's first element, and forgets the
  // scalars of the unit, for the same members are then lowered without tiles.
  void BeginTiles() { tiles_ = true; }
  ir::Block EndTiles();

 protected:
  ir::Value RowArray(BufferId id) override;
  ir::Value CheckIndex(const IndexRule& rule, const ir::Value& index, const Expr& size,
                       const ir::Value& on) override;
  ir::Value CheckData(DataCheck check, const ir::Value& value, const ir::Value& on) override;
  ir::Value SpecialLoad(const Inst& inst, const ir::Value& address, const Expr& stride) override;
  ir::Value ScanVector(int id, const ir::Value& vector) override;

 private:
  // What the elements before the present vector combine to: of a row a number, which lies across
  // its loops; of a block of columns an array with a number for each.
  const ir::Value& ScannedBefore(int id);

  const CpuPlan& plan_;
  std::map<BufferId, ir::Value> row_arrays_;
  bool tiles_ = false;
  std::map<std::string, ir::Value> tile_of_;  // by the text of the first element's address
  ir::Block fills_;
  std::map<std::pair<const NestMember*, int>, ir::Value> scanned_;  // by member and instruction
};

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_CODEGEN_CPU_BODY_H_
