// SPDX-License-Identifier: Apache-2.0
#include "server/compile/request_memory.h"

#include <gmock/gmock.h>

#include <deque>
#include <string>
#include <vector>

#include "server/compile/request_bytes.h"
#include "tensord/v1/requests.pb.h"
#include "tensord/v1/worker.pb.h"

namespace tensord::server {
namespace request_memory_test {

using ::testing::ElementsAre;

constexpr uint64_t kMiB = 1 << 20;

// Asks, and notes what came of it.
class Asker {
 public:
  explicit Asker(uint64_t limit) : memory(limit) {}

  RequestMemory::Ticket Ask(const std::string& name, uint64_t bytes) {
    return memory.Ask(bytes, [this, name](absl::StatusOr<RequestMemory::Share> share) {
      ready.push_back(share.ok() ? name : name + " refused");
      if (share.ok()) shares.push_back(*std::move(share));
    });
  }

  RequestMemory memory;
  std::vector<std::string> ready;
  std::deque<RequestMemory::Share> shares;
};

TEST(RequestMemoryTest, LargeOnesWaitForRoomInOrder) {
  Asker asker(10 * kMiB);
  asker.Ask("a", 6 * kMiB);
  asker.Ask("b", 6 * kMiB);
  asker.Ask("c", 1 * kMiB);  // would fit, and is behind b
  EXPECT_THAT(asker.ready, ElementsAre("a"));
  EXPECT_EQ(asker.memory.held(), 6 * kMiB);
  asker.shares.front().Resize(5 * kMiB);
  EXPECT_THAT(asker.ready, ElementsAre("a"));
  asker.shares.pop_front();
  EXPECT_THAT(asker.ready, ElementsAre("a", "b", "c"));
  asker.shares.clear();
  EXPECT_EQ(asker.memory.held(), 0u);
}

TEST(RequestMemoryTest, SmallOnesDoNotWait) {
  Asker asker(10 * kMiB);
  asker.Ask("a", 10 * kMiB);
  asker.Ask("b", 10 * kMiB);
  asker.Ask("small", RequestMemory::kSmall);
  EXPECT_THAT(asker.ready, ElementsAre("a", "small"));
  EXPECT_EQ(asker.memory.held(), 10 * kMiB + RequestMemory::kSmall);
}

TEST(RequestMemoryTest, WhatHasComeIsCounted) {
  Asker asker(10 * kMiB);
  {
    const RequestMemory::Share share = asker.memory.Take(12 * kMiB);
    EXPECT_EQ(asker.memory.held(), 12 * kMiB);
    asker.Ask("a", 1 * kMiB);
    EXPECT_TRUE(asker.ready.empty());
  }
  EXPECT_THAT(asker.ready, ElementsAre("a"));
}

TEST(RequestMemoryTest, WhatIsLargerThanTheLimitComesAlone) {
  Asker asker(2 * kMiB);
  asker.Ask("a", 1 * kMiB);
  asker.Ask("huge", 100 * kMiB);
  EXPECT_THAT(asker.ready, ElementsAre("a"));
  asker.shares.clear();
  EXPECT_THAT(asker.ready, ElementsAre("a", "huge"));
}

TEST(RequestMemoryTest, WhoStopsWaitingMakesWay) {
  Asker asker(10 * kMiB);
  asker.Ask("a", 6 * kMiB);
  const auto ticket = asker.Ask("b", 6 * kMiB);
  asker.Ask("c", 1 * kMiB);
  asker.memory.Cancel(ticket, absl::CancelledError(""));
  asker.memory.Cancel(ticket, absl::CancelledError(""));
  EXPECT_THAT(asker.ready, ElementsAre("a", "b refused", "c"));
}

TEST(RequestMemoryTest, NobodyWaitsForAMemoryThatStopped) {
  Asker asker(10 * kMiB);
  asker.Ask("a", 6 * kMiB);
  asker.Ask("b", 6 * kMiB);
  asker.memory.Stop();
  asker.Ask("c", 6 * kMiB);
  asker.Ask("d", 1 * kMiB);  // fits
  EXPECT_THAT(asker.ready, ElementsAre("a", "b refused", "c refused", "d"));
}

TEST(RequestBytesTest, AJobIsTheRequestWithoutWhoAsks) {
  v1::CompileRequest request;
  request.mutable_graph()->add_nodes()->set_op("aten::add");
  request.mutable_target()->mutable_cpu()->set_isa(v1::ISA_AVX2);
  request.mutable_options()->set_unchecked(true);
  request.mutable_caller()->set_job("job");
  request.set_label("forward");
  std::string bytes = request.SerializeAsString();
  // A message may come in parts, in any order.
  v1::CompileRequest more;
  more.mutable_graph()->add_nodes()->set_op("aten::mul");
  bytes += more.SerializeAsString();
  ASSERT_TRUE(MakeJob(&bytes).ok());

  v1::CompileJob library;
  library.add_library_nodes("x");
  const std::string tail = library.SerializeAsString();
  v1::WorkerRequest worker;
  ASSERT_TRUE(worker.ParseFromString(WorkerRequestHead(bytes.size() + tail.size()) + bytes + tail));
  const v1::CompileJob& job = worker.compile();
  EXPECT_EQ(job.graph().nodes_size(), 2);
  EXPECT_EQ(job.graph().nodes(1).op(), "aten::mul");
  EXPECT_EQ(job.target().cpu().isa(), v1::ISA_AVX2);
  EXPECT_TRUE(job.options().unchecked());
  EXPECT_EQ(job.failure(), "");
  EXPECT_THAT(job.library_nodes(), ElementsAre("x"));
}

TEST(RequestBytesTest, WhatIsNoMessageIsNoJob) {
  for (std::string bytes : {std::string("\xff\xff\xff"), std::string("\x0a\x05x"),
                            std::string("\x0a\x01x\x0c", 4), std::string("\0", 1)}) {
    EXPECT_EQ(MakeJob(&bytes).code(), absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace request_memory_test
}  // namespace tensord::server
