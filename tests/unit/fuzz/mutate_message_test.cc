// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/targets/mutate_message.h"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <string>

#include "tensord/v1/worker.pb.h"

namespace tensord::fuzz {
namespace {

v1::CompileJob Job() {
  v1::CompileJob job;
  for (const char* op : {"aten::add", "aten::mul"}) {
    v1::Node& node = *job.mutable_graph()->add_nodes();
    node.set_op(op);
    node.add_args()->mutable_value()->set_value(1);
    node.add_outputs()->set_dtype(v1::DTYPE_FLOAT32);
  }
  job.mutable_graph()->add_inputs()->mutable_tensor()->add_sizes()->set_constant(4);
  return job;
}

TEST(MutateMessage, MakesManyMessagesOfOne) {
  std::mt19937 random(1);
  std::set<std::string> made;
  for (int i = 0; i < 1000; ++i) {
    v1::CompileJob job = Job();
    MutateMessage(&job, random);
    v1::CompileJob read;
    ASSERT_TRUE(read.ParseFromString(job.SerializeAsString()));
    made.insert(job.SerializeAsString());
  }
  EXPECT_GT(made.size(), 100u);
}

TEST(MutateMessage, MayBeRepeatedWithoutEnd) {
  std::mt19937 random(2);
  v1::CompileJob job = Job();
  for (int i = 0; i < 5000 && job.ByteSizeLong() < 10000; ++i) MutateMessage(&job, random);
}

TEST(CrossOver, TakesAPartOfItsType) {
  std::mt19937 random(3);
  v1::CompileJob from;
  from.mutable_graph()->add_nodes()->set_op("aten::sin");
  bool taken = false;
  for (int i = 0; i < 100; ++i) {
    v1::CompileJob job = Job();
    CrossOver(&job, from, random);
    for (const v1::Node& node : job.graph().nodes()) taken |= node.op() == "aten::sin";
  }
  EXPECT_TRUE(taken);
}

}  // namespace
}  // namespace tensord::fuzz
