// SPDX-License-Identifier: Apache-2.0
// Random captured graphs over the operators that fuse: pointwise, broadcasts, reductions, views,
// joins, norms, writes into inputs. Every graph is valid.
#ifndef TENSORD_TESTS_FUZZ_RANDOM_GRAPH_H_
#define TENSORD_TESTS_FUZZ_RANDOM_GRAPH_H_

#include <cstdint>

#include "tensord/v1/graph.pb.h"

namespace tensord::testing {

struct RandomGraphOptions {
  int nodes = 12;
  bool symbolic = false;  // the leading dimension of every input is a symbol
  v1::DeviceType device = v1::DEVICE_TYPE_CPU;
};

v1::Graph RandomGraph(uint64_t seed, const RandomGraphOptions& options);

}  // namespace tensord::testing

#endif  // TENSORD_TESTS_FUZZ_RANDOM_GRAPH_H_
