// SPDX-License-Identifier: Apache-2.0
// A graph as a file has it.
#ifndef TENSORD_SERVER_PROGRAM_JOB_FILE_H_
#define TENSORD_SERVER_PROGRAM_JOB_FILE_H_

#include <string>

#include "base/status.h"
#include "tensord/v1/worker.pb.h"

namespace tensord::server {

// A job from what a file holds: a CompileJob, as the daemon keeps them in <store>/repros/, or a
// Graph, each serialised or in text format. A graph alone is a job without a target.
// InvalidArgument where the content is none of them.
absl::StatusOr<v1::CompileJob> ParseJob(const std::string& content);

// Whether the graph's program is one for a GPU: a tensor lies there that it takes, has or makes. As
// clients decide it.
bool IsOnGpu(const v1::Graph& graph);

}  // namespace tensord::server

#endif  // TENSORD_SERVER_PROGRAM_JOB_FILE_H_
