// SPDX-License-Identifier: Apache-2.0
#include "server/ahead/graphs.h"

#include <absl/strings/str_cat.h>
#include <google/protobuf/arena.h>

#include <utility>

#include "base/version.h"
#include "server/archive/export.h"
#include "server/program/job_file.h"
#include "server/store/blobs.h"

namespace tensord::server {
namespace {

// Where a GraphCall has its programs, and what the client labels their requests.
struct ProgramField {
  bool (v1::GraphCall::*has)() const;
  const v1::FrameProgram& (v1::GraphCall::*get)() const;
  const char* label;
};

constexpr ProgramField kPrograms[] = {
    {&v1::GraphCall::has_inference, &v1::GraphCall::inference, "inference"},
    {&v1::GraphCall::has_forward, &v1::GraphCall::forward, "forward"},
    {&v1::GraphCall::has_backward, &v1::GraphCall::backward, "backward"},
    {&v1::GraphCall::has_backward_with_all, &v1::GraphCall::backward_with_all, "backward"},
};

}  // namespace

absl::StatusOr<AheadGraph> ReadGraph(const std::string& path) {
  TENSORD_ASSIGN_OR_RETURN(const std::string content, store::ReadFile(path));
  absl::StatusOr<v1::CompileJob> job = ParseJob(content);
  if (!job.ok()) {
    return absl::Status(job.status().code(), absl::StrCat(path, ": ", job.status().message()));
  }
  AheadGraph graph;
  graph.name = path;
  if (job->has_target()) graph.target = job->target();
  graph.graph = std::move(*job->mutable_graph());
  graph.options = job->options();
  return graph;
}

absl::Status GraphsOf(const v1::Frame& frame, const OnGraph& on_graph) {
  const std::string name =
      absl::StrCat(frame.code().module(), frame.code().module().empty() ? "" : ".",
                   frame.code().qualified_name());
  for (const v1::GraphCall& call : frame.graphs()) {
    for (const ProgramField& field : kPrograms) {
      if (!(call.*field.has)()) continue;
      const v1::FrameProgram& program = (call.*field.get)();
      TENSORD_RETURN_IF_ERROR(
          on_graph({name, field.label, program.graph(), program.options(), std::nullopt}));
    }
  }
  return absl::OkStatus();
}

absl::Status StoredGraphs(store::Store& store, const std::string& job, const OnGraph& on_graph) {
  TENSORD_ASSIGN_OR_RETURN(
      const archive::Selection selection,
      job.empty() ? archive::SelectAll(store) : archive::SelectJob(store, job));
  bool any = false;
  for (const auto& [place, keys] : selection.frames) {
    for (const std::string& key : keys) {
      const auto record = store.PeekFrame(key);
      if (absl::IsNotFound(record.status())) continue;  // evicted meanwhile
      TENSORD_RETURN_IF_ERROR(record.status());
      google::protobuf::Arena arena;
      auto& frame = *google::protobuf::Arena::CreateMessage<v1::Frame>(&arena);
      // No job asks for those of another format.
      if (!frame.ParseFromString((*record)->payload) ||
          frame.environment().format() != kFrameFormat) {
        continue;
      }
      any = true;
      TENSORD_RETURN_IF_ERROR(GraphsOf(frame, on_graph));
    }
  }
  if (any) return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat(
      store.root(), " has no frame", job.empty() ? "" : absl::StrCat(" of job '", job, "'"),
      ": tensorctl import or prefetch brings those of other hosts"));
}

}  // namespace tensord::server
