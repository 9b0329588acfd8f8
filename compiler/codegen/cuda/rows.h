// SPDX-License-Identifier: Apache-2.0
// The inside of rows of a CUDA nest, and how blocks go through them.
#ifndef TENSORD_COMPILER_CODEGEN_CUDA_ROWS_H_
#define TENSORD_COMPILER_CODEGEN_CUDA_ROWS_H_

#include <string>

#include "compiler/codegen/cuda/accumulators.h"
#include "compiler/codegen/nest.h"

namespace tensord::compiler {

class CudaRowLowering : protected NestLowering {
 protected:
  CudaRowLowering(const Program& program, const Nest& nest, const CudaPlan& plan, std::string name,
                  KernelInterface* interface);

  // Vectors of a row (of the columns, where threads own them), and rows.
  Expr Vectors() const;
  Expr Rows() const { return sym::Product(nest_.outer); }

  // A loop over some of what a thread has in registers: vectors of a row, or rows of a column.
  static ir::Statement ForRegisters(int64_t first, int64_t last, ir::Block body);

  // The innermost statements of a pass, scalars of inner loops included.
  ir::Block InnerLines() const;
  ir::Block DecodeRow(const ir::Value& row);
  ir::Block DecodeVector();

  // A group has one row; or row after row; or one of so many parts of one.
  ir::Block OneRow();
  ir::Block SweepRows();
  ir::Block PartOfRow(int parts);

  // Names of what a part has of so many vectors, or rows: from `first` up to `last`.
  static ir::Block ShareOf(const ir::Value& count, int parts);

  // The members of a pass, or of a function that finds totals what these need.
  void LowerScanned(int position);

  const CudaPlan& plan_;
  std::string name_;
  CudaBody body_;
  CudaAccumulators accumulators_;

 private:
  ir::Block SweepPrefetchedRows(const ir::Block& decode, const ir::Block& unit);
  ir::Block SweepColumnTiles(const ir::Block& decode, const ir::Block& unit);
  ir::Block RowBody();
  ir::Block Pass(int position);
  ir::Block ScanPass(int position);
  // `vector`, for each vector that a thread has in registers of its row.
  ir::Statement ForVectors(ir::Block vector) const;
  // Whole vectors first, then the lanes that are left.
  ir::Block LoopsWithTail(int position);
  struct Tail;
  ir::Block LoopWithTail(const Tail& tail, const ir::Block& whole);
  ir::Block VectorsWithTail(const Tail& tail, const ir::Block& whole);
  // How many elements of the row come before the first that the row's stores find aligned.
  ir::Statement Lead();
};

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_CODEGEN_CUDA_ROWS_H_
