// SPDX-License-Identifier: Apache-2.0
// Steps that run in the job.
#include "compiler/ops/tables.h"

namespace tensord::compiler {
namespace {

constexpr OperatorRow kCallBacksRows[] = {
    // Number `number` of the graph's call-backs, with tensors whose elements it writes (inputs),
    // others that it reads, and sizes. What it does, only the job knows. Its results are new.
    {"tensord::call_back(int number, Tensor(a!)[] writes, Tensor?[] reads, int[] sizes)",
     kByLibrary | kCallsBack},
};

}  // namespace

OperatorTable CallBackTable() { return {OperatorKind::kCallBack, kCallBacksRows}; }

}  // namespace tensord::compiler
