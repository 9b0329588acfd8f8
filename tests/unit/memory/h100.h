// SPDX-License-Identifier: Apache-2.0
// The GPU that memory is planned for, and what graphs for it are made of.
#ifndef TENSORD_TESTS_UNIT_MEMORY_H100_H_
#define TENSORD_TESTS_UNIT_MEMORY_H100_H_

#include "tests/unit/testing/graph_builder.h"

namespace tensord::testing {

// Of a program that may count on its inputs' memory once they are read, as backward ones may.
inline v1::CompileJob JobForH100(GraphBuilder& g) {
  v1::CompileJob job;
  job.mutable_options()->set_releases_inputs(true);
  *job.mutable_graph() = g.graph();
  v1::CudaTarget* cuda = job.mutable_target()->mutable_cuda();
  cuda->set_sm(90);
  cuda->set_multiprocessors(132);
  cuda->set_shared_bytes_per_block(232448);
  cuda->set_l2_bytes(50 << 20);
  cuda->set_registers_per_multiprocessor(65536);
  return job;
}

inline constexpr v1::DType kHalf = v1::DTYPE_BFLOAT16;

inline Ref Transposed(GraphBuilder& g, Ref x, int rows, int columns) {
  return g.Node("aten::t", {x}, g.Meta({columns, rows}, kHalf, {1, columns}));
}

}  // namespace tensord::testing

#endif  // TENSORD_TESTS_UNIT_MEMORY_H100_H_
