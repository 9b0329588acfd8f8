// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <fstream>

#include "server/ahead/graphs.h"
#include "server/archive/file_sources.h"
#include "server/frames/shared_frames.h"
#include "server/jobs/job_lists.h"
#include "tests/unit/server/filled_store.h"

namespace tensord::server {
namespace ahead_graphs_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

// A frame of a training graph, whose programs are told by their nodes.
v1::Frame Training(v1::Frame frame, const std::string& op) {
  v1::GraphCall& call = *frame.add_graphs();
  call.set_name("__compiled_fn_0");
  call.mutable_forward()->mutable_graph()->add_nodes()->set_op(op + " forward");
  call.mutable_forward()->mutable_options()->set_deterministic(true);
  call.mutable_backward()->mutable_graph()->add_nodes()->set_op(op + " backward");
  call.mutable_backward_with_all()->mutable_graph()->add_nodes()->set_op(op + " all");
  return frame;
}

class AheadGraphsTest : public archive::FilledStoreTest {
 protected:
  AheadGraphsTest() {
    on_graph_ = [this](AheadGraph graph) {
      seen_.push_back(graph.graph.nodes(0).op());
      graphs_.push_back(std::move(graph));
      return absl::OkStatus();
    };
  }

  void Put(const v1::Frame& frame) {
    const std::string bytes = frame.SerializeAsString();
    ASSERT_TRUE(store_->PutFrame(Sha256(bytes), bytes, FactsOf(frame, "")).ok());
  }
  std::string File(const std::string& content) {
    const std::string path = folder_ + "/graph";
    std::ofstream(path, std::ios::binary) << content;
    return path;
  }

  OnGraph on_graph_;
  std::vector<AheadGraph> graphs_;
  std::vector<std::string> seen_;  // their first operators
};

TEST_F(AheadGraphsTest, AFrameHasAllItsProgramsWithTheirOptions) {
  ASSERT_TRUE(GraphsOf(Training(FrameOf("code", "text"), "a"), on_graph_).ok());
  EXPECT_THAT(seen_, ElementsAre("a forward", "a backward", "a all"));
  EXPECT_EQ(graphs_[0].label, "forward");
  EXPECT_EQ(graphs_[0].name, "code");
  EXPECT_TRUE(graphs_[0].options.deterministic());
  EXPECT_FALSE(graphs_[1].options.deterministic());
  EXPECT_EQ(graphs_[2].label, "backward");
  EXPECT_FALSE(graphs_[0].target.has_value());
}

TEST_F(AheadGraphsTest, AStoresFramesButThoseOfAnotherFormat) {
  EXPECT_THAT(std::string(StoredGraphs(*store_, "", on_graph_).message()),
              HasSubstr("tensorctl import or prefetch"));
  Put(Training(FrameOf("code", "text"), "a"));
  Put(Training(FrameOf("other code", "text"), "b"));
  Put(Training(FrameOf("code", "old", kFrameFormat - 1), "c"));
  ASSERT_TRUE(StoredGraphs(*store_, "", on_graph_).ok());
  EXPECT_THAT(seen_, UnorderedElementsAre("a forward", "a backward", "a all", "b forward",
                                          "b backward", "b all"));
}

TEST_F(AheadGraphsTest, OfOneJobTheFramesThatItUsed) {
  const v1::Frame used = Training(FrameOf("code", "text"), "a");
  Put(used);
  Put(Training(FrameOf("other code", "text"), "b"));
  JobLists lists(store_.get(), nullptr);
  const store::FrameFacts facts = FactsOf(used, "");
  lists.Used("train", FramesName(PlaceOf(facts.code, facts.environment)));
  lists.Flush();
  ASSERT_TRUE(StoredGraphs(*store_, "train", on_graph_).ok());
  EXPECT_THAT(seen_, ElementsAre("a forward", "a backward", "a all"));
  EXPECT_TRUE(absl::IsNotFound(StoredGraphs(*store_, "another", on_graph_)));
}

TEST_F(AheadGraphsTest, WhatIsReturnedEndsIt) {
  Put(Training(FrameOf("code", "text"), "a"));
  const auto stop = [](AheadGraph) { return absl::CancelledError("enough"); };
  EXPECT_TRUE(absl::IsCancelled(StoredGraphs(*store_, "", stop)));
}

TEST_F(AheadGraphsTest, AFileHasAJobOrAGraph) {
  v1::CompileJob job;
  job.mutable_graph()->add_nodes()->set_op("aten::sin");
  const auto graph = ReadGraph(File(job.graph().SerializeAsString()));
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(graph->graph.nodes(0).op(), "aten::sin");
  EXPECT_FALSE(graph->target.has_value());
  job.mutable_target()->mutable_cuda()->set_sm(90);
  job.mutable_options()->set_unchecked(true);
  job.set_failure("of a repro");
  const auto repro = ReadGraph(File(job.SerializeAsString()));
  ASSERT_TRUE(repro.ok()) << repro.status();
  EXPECT_EQ(repro->target->cuda().sm(), 90u);
  EXPECT_TRUE(repro->options.unchecked());
  EXPECT_EQ(repro->name, folder_ + "/graph");
  const auto rubbish = ReadGraph(File("rubbish"));
  EXPECT_TRUE(absl::IsInvalidArgument(rubbish.status()));
  EXPECT_THAT(std::string(rubbish.status().message()), HasSubstr("/graph: neither a CompileJob"));
  EXPECT_FALSE(ReadGraph(folder_ + "/absent").ok());
}

// What another build exported is no store's, but its frames are graphs.
TEST_F(AheadGraphsTest, AnExportOfAnotherBuildHasFramesAndTargets) {
  AddProgram("first", {"a"});
  Put(Training(FrameOf("code", "text"), "a"));
  ExportAll(file_);
  const archive::Host other{Sha256("another build"), nullptr};
  EXPECT_FALSE(archive::CheckFile(*keys_, other, file_).ok());
  const auto file = archive::FileSources::Open(file_, *keys_);
  ASSERT_TRUE(file.ok()) << file.status();
  int programs = 0;
  ASSERT_TRUE(file->ShowPrograms([&](const v1::Artifact& program) {
                    programs += program.modules_size() == 1;
                    return absl::OkStatus();
                  })
                  .ok());
  EXPECT_EQ(programs, 1);
  ASSERT_TRUE(
      file->ShowFrames([&](const v1::Frame& frame) { return GraphsOf(frame, on_graph_); }).ok());
  EXPECT_THAT(seen_, ElementsAre("a forward", "a backward", "a all"));
}

TEST_F(AheadGraphsTest, OfADamagedExportNothingIsRead) {
  Put(Training(FrameOf("code", "text"), "a"));
  ExportAll(file_);
  std::string bytes = Bytes(file_);
  bytes[600] ^= 1;
  std::ofstream(file_, std::ios::binary) << bytes;
  const auto damaged = archive::FileSources::Open(file_, *keys_);
  EXPECT_TRUE(absl::IsDataLoss(damaged.status())) << damaged.status();
  EXPECT_THAT(std::string(damaged.status().message()), HasSubstr(file_));
}

}  // namespace ahead_graphs_test
}  // namespace tensord::server
