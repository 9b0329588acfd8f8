// SPDX-License-Identifier: Apache-2.0
// Nodes around products of matrices, for the passes that change those.
#ifndef TENSORD_COMPILER_REWRITE_MATRIX_NODES_H_
#define TENSORD_COMPILER_REWRITE_MATRIX_NODES_H_

#include <string>
#include <vector>

#include "compiler/graph/editor.h"

namespace tensord::compiler {

// Every function adds nodes called `name` before the old node `before` and gives the result.
class MatrixNodes {
 public:
  explicit MatrixNodes(GraphEditor* editor) : editor_(editor) {}

  // A view with the last two dimensions swapped.
  ValueId Transposed(int before, const std::string& name, ValueId value);
  // The value at the start of row-major memory of these sizes, with zeros behind it.
  ValueId ZeroPadded(int before, const std::string& name, ValueId value,
                     const std::vector<Expr>& sizes);
  // A view of the start of a dimension. `type` has the length, and the strides that eager promises.
  ValueId FirstOf(int before, const std::string& name, ValueId value, int dim, TensorType type);
  // A view of one batch of matrices as `batch` of them, which are all the same.
  ValueId Broadcast(int before, const std::string& name, ValueId value, const Expr& batch);

 private:
  ValueId Add(int before, const std::string& op, const std::string& name,
              const NamedArguments& args, TensorType type);

  GraphEditor* editor_;
};

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_REWRITE_MATRIX_NODES_H_
