// The bodies of a CPU nest: rows kept in arrays, transposed operands read through tiles.
#ifndef TENSORD_COMPILER_CODEGEN_CPU_BODY_H_
#define TENSORD_COMPILER_CODEGEN_CPU_BODY_H_

#include <map>
#include <string>
#include <vector>

#include "compiler/codegen/body.h"
#include "compiler/schedule/cpu/plan.h"

namespace tensord::compiler {

class CpuBody : public BodyEmitter {
 public:
  CpuBody(const Program& program, const Nest& nest, const CpuPlan& plan, KernelInterface* interface)
      : BodyEmitter(program, nest, interface), plan_(plan) {}

  // From here on transposed loads read the rows of local tiles. EndTiles gives the statements that
  // fill the tiles, for the outer and vector loops at the tile's first element, and forgets the
  // scalars of the unit, for the same members are then emitted without tiles.
  void BeginTiles() { tiles_ = true; }
  std::vector<std::string> EndTiles();

 protected:
  std::string ReadLocal(BufferId buffer) override;
  std::string WriteLocal(BufferId buffer, const std::string& value) override;
  std::string SpecialLoad(const Inst& inst, const std::string& address,
                          const Expr& stride) override;

 private:
  std::string RowArray(BufferId id);

  const CpuPlan& plan_;
  std::map<BufferId, std::string> row_arrays_;  // local buffers that a later pass reads
  bool tiles_ = false;
  std::map<std::string, std::string> tile_of_;  // operand and index -> array
  std::vector<std::string> tile_lines_;
};

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_CODEGEN_CPU_BODY_H_
