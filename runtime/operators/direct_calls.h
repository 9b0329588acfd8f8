// SPDX-License-Identifier: Apache-2.0
// Operators for which torch's stable interface has a function of their own, which takes the
// arguments as they are, not boxed for the dispatcher.
#ifndef TENSORD_RUNTIME_OPERATORS_DIRECT_CALLS_H_
#define TENSORD_RUNTIME_OPERATORS_DIRECT_CALLS_H_

#include "runtime/program/plan.h"

namespace tensord::runtime {

// Null: there is none for the operator, its arguments or torch's `device`.
const DirectCall* FindDirectCall(int32_t device, const CallPlan& call);
// Whether this torch has the function of `call.direct`, and one that takes the call's arguments.
bool IsThere(const Torch& torch, const CallPlan& call);
// `arguments` as many as the operator has; `results` has room for all that it returns and receives
// new references, none of an out= call.
TorchError CallDirect(const Torch& torch, const DirectCall& direct, const TensordValue* arguments,
                      Handle* results);

}  // namespace tensord::runtime

#endif  // TENSORD_RUNTIME_OPERATORS_DIRECT_CALLS_H_
