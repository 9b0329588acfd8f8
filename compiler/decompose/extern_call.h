// SPDX-License-Identifier: Apache-2.0
// Calls of library operators for nodes that nobody lowers.
#ifndef TENSORD_COMPILER_DECOMPOSE_EXTERN_CALL_H_
#define TENSORD_COMPILER_DECOMPOSE_EXTERN_CALL_H_

#include <functional>
#include <vector>

#include "compiler/graph/graph.h"
#include "compiler/loop_ir/builder.h"

namespace tensord::compiler {

// Gives the realized tensor of a kValue argument.
using TensorSource = std::function<Tensor(const ArgumentValue&)>;

// The call as captured; its results are new.
std::vector<Tensor> CallLibrary(Builder& b, const Node& node, const TensorSource& tensor_of);
// The same for an operator that writes its first argument and gives nothing else.
void CallLibraryInPlace(Builder& b, const Node& node, const TensorSource& tensor_of);

// A copy of `t` on another device, by the library.
Tensor CopyToDevice(Builder& b, const Tensor& t, v1::DeviceType device);

// A copy of `t`, which is in memory, with these strides where it lies, by the library: for what is
// not on the device that code is generated for.
Tensor CopyWhereItLies(Builder& b, const Tensor& t, const Sizes& strides);

// A captured argument other than a tensor or a list.
v1::Argument PlainArgument(const ArgumentValue& arg);
ExternArg NoneArg();
ExternArg ScalarArg(const ArgumentValue& arg);
ExternArg ScalarArg(int64_t number);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_DECOMPOSE_EXTERN_CALL_H_
