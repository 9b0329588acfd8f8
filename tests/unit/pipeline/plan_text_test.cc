// SPDX-License-Identifier: Apache-2.0
// A launch plan as text: every kind of step, storage and expression.
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include "compiler/plan/text.h"

namespace tensord::testing {
namespace plan_text_test {

v1::Artifact Parsed(const std::string& text) {
  v1::Artifact artifact;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &artifact));
  return artifact;
}

const char* const kMeta = R"(meta { dtype: DTYPE_FLOAT32 device: DEVICE_TYPE_CUDA
    sizes { symbol: 0 } sizes { constant: 8 } strides { constant: 8 } strides { constant: 1 }
    storage_offset { constant: 0 } })";

TEST(PlanText, StepsOfACudaPlan) {
  const std::string meta = kMeta;
  const v1::Artifact plan = Parsed(
      R"(symbols { hint: 4 min: 2 max: 4096 } bindings { symbol: 0 input: 0 dim: 0 }
         symbols { hint: 4 min: 3 max: 6963 definition { rounding: CEIL real { op { kind: ADD
             args { op { kind: MUL args { constant: 1.5 } args { integer { symbol: 0 } } } }
             args { op { kind: DIV args { op { kind: SQRT args { constant: 4 } } }
                         args { op { kind: POW args { integer { symbol: 0 } }
                                     args { constant: 0.5 } } } } } } } } }
         inputs { name: "x" } constants { name: "k" } buffers { input: 0 )" +
      meta + "} buffers { constant: 0 " + meta + "} buffers { workspace { constant: 64 } " + meta +
      "} buffers { owned: true " + meta +
      "} buffers { extern_result: true } buffers { view_of: 3 " + meta + R"(}
         workspace_bytes { op { kind: ADD args { constant: 64 } args { op { kind: MUL
             args { symbol: 0 } args { constant: 32 } } } } }
         standalone_bytes { constant: 512 }
         steps { zero_fill { offset { constant: 0 } bytes { constant: 64 } } }
         steps { call { op: "aten::mm" overload: "out" node: "mm" into_out: true
             args { value { value: 0 } } args { list { items { integer { constant: 3 } }
             items { real: 0.5 } } } args { value { value: 2 } } results: 2 results: 4 } }
         steps { launch { function: "tensord_add" description: "add" module: 1
             buffers: 2 buffers: 1 buffers: 3 written: 3 integers { symbol: 0 }
             cuda { grid { op { kind: FLOOR_DIV args { symbol: 0 } args { constant: 2 } } }
                    block: 128 shared_bytes: 1024 scratch { constant: 0 }
                    counters { constant: 0 } waits_itself: true } } }
         steps { free: 2 }
         outputs { buffer: 5 } outputs { integer { symbol: 0 } } outputs { none: true })");
  EXPECT_EQ(compiler::ToString(plan),
            R"(b0: float32[s0, 8] strides [8, 1] input 0  # x
b1: float32[s0, 8] strides [8, 1] constant 0  # k
b2: float32[s0, 8] strides [8, 1] workspace at 64
b3: float32[s0, 8] strides [8, 1] owned
b5: float32[s0, 8] strides [8, 1] view of b3
s0 = size 0 of input 0, from 2 to 4096
s1 = ceil((1.5 * s0 + (sqrt(4) / pow(s0, 0.5)))), from 3 to 6963
workspace: (64 + s0 * 32) bytes, standalone 512 bytes
step 0: zero 64 bytes of the workspace at 0
step 1: call aten::mm.out(b0, [3, 0.5], b2) -> b2, nothing  # mm
step 2: launch tensord_add(b2, b1, b3, s0) -> b3; module 1, grid (s0 // 2), block 128, shared 1024 bytes, scratch at 0, counters at 0, waits itself  # add
step 3: free b2
return b5, s0, none
)");
}

TEST(PlanText, CpuLaunchesSayTheirScratch) {
  const v1::Artifact plan = Parsed(
      R"(workspace_bytes { constant: 0 }
         steps { launch { function: "tensord_sum" description: "sum"
             buffers: 1 buffers: 0 written: 0 integers { symbol: 0 }
             scratch_bytes_per_thread { constant: 256 } } })");
  EXPECT_EQ(compiler::ToString(plan), R"(workspace: 0 bytes
step 0: launch tensord_sum(b1, b0, s0) -> b0; module 0, scratch 256 bytes a thread  # sum
return 
)");
}

}  // namespace plan_text_test
}  // namespace tensord::testing
