// SPDX-License-Identifier: Apache-2.0
// What the threads of a CUDA row keep in registers between its passes.
#ifndef TENSORD_COMPILER_SCHEDULE_CUDA_REGISTER_RESIDENT_H_
#define TENSORD_COMPILER_SCHEDULE_CUDA_REGISTER_RESIDENT_H_

#include <set>
#include <utility>

#include "compiler/schedule/nest.h"

namespace tensord::compiler {

// Sums over rows, one for each column.
bool IsColumnSum(const NestMember& m);

// Values that later passes of a row read: buffers that live only there.
std::set<BufferId> LocalsOfRows(const Nest& nest);

// Results in memory that later passes of the row read back, element by element.
std::set<BufferId> ResultsReadBack(const Nest& nest);

// Those of the locals that later passes compute again instead; `in_registers`: where
// they would be kept there.
std::set<BufferId> RecomputedLocals(const Nest& nest, bool in_registers);

// Loads that several passes make, of what differs from row to row.
std::set<std::pair<BufferId, Expr>> RepeatedLoads(const Nest& nest);

// Whether an index differs from row to row, and is known without loading anything.
bool DependsOnRow(const Nest& nest, const Expr& index);
// By a member at this position or a later one.
bool IsWritten(const Nest& nest, BufferId buffer, int from = 0);
bool IsLoaded(const Nest& nest, BufferId buffer);

// Accumulators of columns that a thread keeps, an array of its vectors each.
int ColumnArrays(const Nest& nest);
// Register-resident arrays of a row: kept loads, values and results for later passes
// and sums of columns.
int RegisterResidentArrays(const Nest& nest);

// Bytes of a row's values for later passes where they are not in registers.
int64_t BytesOfRowValues(const Program& program, const Nest& nest);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_SCHEDULE_CUDA_REGISTER_RESIDENT_H_
