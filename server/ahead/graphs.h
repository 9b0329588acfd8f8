// SPDX-License-Identifier: Apache-2.0
// Where graphs come from that are compiled before a job asks for them: files, and frames, each of
// which has its programs as graphs with the options of the job that captured them.
#ifndef TENSORD_SERVER_AHEAD_GRAPHS_H_
#define TENSORD_SERVER_AHEAD_GRAPHS_H_

#include <functional>
#include <optional>
#include <string>

#include "base/status.h"
#include "server/store/store.h"
#include "tensord/v1/frame.pb.h"
#include "tensord/v1/worker.pb.h"

namespace tensord::server {

struct AheadGraph {
  std::string name;   // of the file, or of the function that was captured; for people
  std::string label;  // "inference", "forward", "backward"; empty where nobody said it
  v1::Graph graph;
  v1::CompileOptions options;
  std::optional<v1::Target> target;  // for which a job asked for it; frames have none
};

// What one returns ends the reading, and is returned.
using OnGraph = std::function<absl::Status(AheadGraph graph)>;

// A file of ParseJob (server/program/job_file.h): a graph alone is compiled with the options of a
// job that gave none.
absl::StatusOr<AheadGraph> ReadGraph(const std::string& path);
// The programs of a frame, in order.
absl::Status GraphsOf(const v1::Frame& frame, const OnGraph& on_graph);
// Those of all frames that are stored, or of those that processes of this job used, unless it is
// empty. NotFound: there is no such frame.
absl::Status StoredGraphs(store::Store& store, const std::string& job, const OnGraph& on_graph);

}  // namespace tensord::server

#endif  // TENSORD_SERVER_AHEAD_GRAPHS_H_
