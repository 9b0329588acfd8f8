// SPDX-License-Identifier: Apache-2.0
// Calls of torch's operators inside a plan: by the cheapest way that can take the arguments.
#ifndef TENSORD_RUNTIME_OPERATORS_EXTERNS_H_
#define TENSORD_RUNTIME_OPERATORS_EXTERNS_H_

#include "runtime/call/tensors.h"
#include "runtime/program/plan.h"

namespace tensord::runtime {

// At load: looks the operator up in the tables of direct kernels and of stable signatures.
// `device` is torch's type of that of the results of an out= call.
void ChooseCall(int32_t device, CallPlan* call);
// Once torch is known: gives up a direct kernel that this torch does not have.
void LinkCall(const Torch& torch, CallPlan* call);

// Calls the operator and takes its results. TENSORD_OPERATOR with torch's message when it raises.
TensordError RunCall(CallState& state, const CallPlan& call);

void SetOperatorCaller(TensordOperatorFn fn, void* context);
bool HasOperatorCaller();

// torch_call_dispatcher (stable_call.cc). The dispatcher reads each argument in the form of the
// schema's type, which the arguments alone do not tell ("int" is a number, "int?" a pointer to
// one): only operators whose signature is in the table go this way.
const StableSignature* FindSignature(const CallPlan& call);
// `arguments` as many as the signature; `results` has room for all that the operator returns and
// receives new references.
TensordError CallStable(const Torch& torch, const CallPlan& call, const TensordValue* arguments,
                        Handle* results);

}  // namespace tensord::runtime

#endif  // TENSORD_RUNTIME_OPERATORS_EXTERNS_H_
