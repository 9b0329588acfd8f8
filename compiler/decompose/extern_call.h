// Calls of library operators for nodes that nobody lowers.
#ifndef TENSORD_COMPILER_DECOMPOSE_EXTERN_CALL_H_
#define TENSORD_COMPILER_DECOMPOSE_EXTERN_CALL_H_

#include <functional>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "compiler/graph/graph.h"
#include "compiler/loop_ir/builder.h"

namespace tensord::compiler {

// Draws from the framework's random state, so that leaving it out changes what follows.
bool IsRandomOperator(std::string_view op);
// Has no results and no effect that matters in a compiled program (hints for the tracer).
bool IsIgnoredOperator(std::string_view op);

// InvalidArgument unless the dispatcher may be asked for this operator: of namespace aten, prims or
// tensord, and not writing to its arguments.
absl::Status CheckExtern(const Node& node);

// Gives the realized tensor of a kValue argument.
using TensorSource = std::function<Tensor(const ArgumentValue&)>;

// The call as captured.
std::vector<Tensor> CallLibrary(Builder& b, const Node& node, const TensorSource& tensor_of);
// The same for an operator that writes its first argument and gives nothing else.
void CallLibraryInPlace(Builder& b, const Node& node, const TensorSource& tensor_of);

// A copy of `t` on another device, by the library.
Tensor CopyToDevice(Builder& b, const Tensor& t, v1::DeviceType device);

// A captured argument other than a tensor or a list.
v1::Argument PlainArgument(const ArgumentValue& arg);
ExternArg NoneArg();
ExternArg ScalarArg(const ArgumentValue& arg);
ExternArg ScalarArg(int64_t number);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_DECOMPOSE_EXTERN_CALL_H_
