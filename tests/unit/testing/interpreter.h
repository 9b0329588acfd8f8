// SPDX-License-Identifier: Apache-2.0
// Runs a Program on the CPU in plain scalar loops, straight from its blocks: the reference
// semantics of the loop IR, with no code generation. Real arithmetic is in double; what is stored
// is rounded to the buffer's type. For small shapes.
#ifndef TENSORD_TESTS_UNIT_TESTING_INTERPRETER_H_
#define TENSORD_TESTS_UNIT_TESTING_INTERPRETER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "compiler/loop_ir/program.h"

namespace tensord::testing {

using compiler::DType;

// One element; `real` for floating types, `integer` for others (bool: 0 or 1).
struct Cell {
  double real = 0;
  int64_t integer = 0;
};

struct HostTensor {
  DType dtype = v1::DTYPE_UNSPECIFIED;
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;  // in elements
  int64_t offset = 0;            // of the first element in `storage`
  std::vector<Cell> storage;

  int64_t NumElements() const;
  // All elements in row-major order, as doubles.
  std::vector<double> Values() const;
};

// A row-major tensor; values are rounded to the type.
HostTensor MakeTensor(const std::vector<int64_t>& sizes, const std::vector<double>& values,
                      DType dtype = v1::DTYPE_FLOAT32);
// The same elements in a storage with these strides.
HostTensor WithStrides(const HostTensor& t, const std::vector<int64_t>& strides);

struct InterpreterOptions {
  std::vector<std::string> constants;  // the bytes of the graph's constants, in order
  std::map<int, int64_t> symbols;      // values of symbolic sizes; the hint where absent
  // Runs a library call: arguments that are tensors come in order, each with its view's layout; it
  // returns the results. Without it a library call is an error.
  std::function<std::vector<HostTensor>(const compiler::ExternOp&, std::vector<HostTensor>)>
      external;
};

// `inputs` by position; those that the program mutates are changed. The results are the program's
// outputs in order, complex ones with a last dimension of their two parts, as inputs are; outputs
// that are integers are zero-dim int64 tensors, none ones have no dtype.
// A broken program (an access outside its buffer, a missing input) ends the process.
std::vector<HostTensor> Interpret(const compiler::Program& program, std::vector<HostTensor>& inputs,
                                  const InterpreterOptions& options = {});

// `value` as a store into a buffer of this type leaves it.
double RoundTo(double value, DType dtype);

}  // namespace tensord::testing

#endif  // TENSORD_TESTS_UNIT_TESTING_INTERPRETER_H_
