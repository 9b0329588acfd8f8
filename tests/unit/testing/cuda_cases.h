// SPDX-License-Identifier: Apache-2.0
// Generated CUDA kernels of whole graphs against the loop IR: the plans of their nests and, run on
// the host, their numbers.
#ifndef TENSORD_TESTS_UNIT_TESTING_CUDA_CASES_H_
#define TENSORD_TESTS_UNIT_TESTING_CUDA_CASES_H_

#include <map>
#include <string>
#include <vector>

#include "compiler/kernel_ir/kernel_ir.h"
#include "tensord/v1/worker.pb.h"
#include "tests/unit/testing/graph_builder.h"

namespace tensord::testing {

struct CudaCase {
  std::string name;
  GraphBuilder graph;
  std::vector<std::string> plans;  // ToString of the nests' plans, in order
  int multiprocessors = 2;         // few: small tensors keep a device busy
  int64_t classes = 0;  // integers of the inputs are less; 0: columns of the first matrix
  std::map<int, int64_t> symbols = {};
  int64_t l2_bytes = 50 << 20;
  // Of a narrow result's largest element: a kernel may sum values before they are rounded.
  double slack = 1e-4;
};

// The case's kernels for an sm_90: their sources, and what these are the text of.
std::vector<v1::KernelUnit> UnitsOf(const CudaCase& c);
std::vector<compiler::ir::Kernel> KernelsOf(const CudaCase& c);

// Expects the plans, and of each result the interpreter's numbers: integers the same, reals up to
// rounding.
void ExpectPlansAndNumbers(const std::vector<CudaCase>& cases);

// A size that is known when the kernels run, 1000 as far as the compiler may guess.
Dim S();
// The same for graphs with that size: of case i it is sizes[i].
void ExpectPlansAndNumbers(std::vector<CudaCase> cases, const std::vector<int64_t>& sizes);

}  // namespace tensord::testing

#endif  // TENSORD_TESTS_UNIT_TESTING_CUDA_CASES_H_
