// SPDX-License-Identifier: Apache-2.0
// The tables of operators, one a file (operators.h explains them).
#ifndef TENSORD_COMPILER_OPS_TABLES_H_
#define TENSORD_COMPILER_OPS_TABLES_H_

#include <cstdint>
#include <span>

#include "compiler/ops/operators.h"

namespace tensord::compiler {

struct OperatorRow {
  const char* schema;
  uint32_t traits = 0;  // of OperatorTrait
};

struct OperatorTable {
  OperatorKind kind;
  std::span<const OperatorRow> rows;
};

OperatorTable PointwiseTable();
OperatorTable SpecialFunctionTable();
OperatorTable ForeachTable();
OperatorTable ActivationTable();
OperatorTable ReductionTable();
OperatorTable ScanTable();
OperatorTable NormalizationTable();
OperatorTable LossTable();
OperatorTable ViewTable();
OperatorTable ConcatenationTable();
OperatorTable CreationTable();
OperatorTable IndexingTable();
OperatorTable ProductTable();
OperatorTable ProductByRowsTable();
OperatorTable ConvolutionTable();
OperatorTable AttentionTable();
OperatorTable PoolingTable();
OperatorTable RandomTable();
OperatorTable AssertionTable();
OperatorTable CallBackTable();

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_OPS_TABLES_H_
