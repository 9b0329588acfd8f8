// SPDX-License-Identifier: Apache-2.0
#include "server/program/job_file.h"

#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/stubs/logging.h>
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace tensord::server {
namespace {

class Silent : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int, google::protobuf::io::ColumnNumber, const std::string&) override {}
};

// The message, where the content is one and nothing else: bytes of another message often parse too,
// but leave fields that this one does not know.
template <typename Message>
std::optional<Message> Parse(const std::string& content) {
  const google::protobuf::LogSilencer silencer;  // what is no such message is no error yet
  Message message;
  if (message.ParseFromString(content)) {
    const size_t size = message.ByteSizeLong();
    message.DiscardUnknownFields();
    if (size > 0 && message.ByteSizeLong() == size) return message;
  }
  google::protobuf::TextFormat::Parser parser;
  Silent silent;
  parser.RecordErrorsTo(&silent);
  if (parser.ParseFromString(content, &message) && message.ByteSizeLong() > 0) return message;
  return std::nullopt;
}

bool LiesOnGpu(const v1::TensorMeta& tensor) { return tensor.device() == v1::DEVICE_TYPE_CUDA; }

}  // namespace

absl::StatusOr<v1::CompileJob> ParseJob(const std::string& content) {
  if (auto job = Parse<v1::CompileJob>(content); job && job->has_graph() && job->has_target()) {
    return *std::move(job);
  }
  if (auto graph = Parse<v1::Graph>(content)) {
    v1::CompileJob job;
    *job.mutable_graph() = *std::move(graph);
    return job;
  }
  return absl::InvalidArgumentError(
      "neither a CompileJob, as in the store's repros folder, nor a Graph, serialised or as text");
}

bool IsOnGpu(const v1::Graph& graph) {
  return std::any_of(graph.inputs().begin(), graph.inputs().end(),
                     [](const v1::Input& input) { return LiesOnGpu(input.tensor()); }) ||
         std::any_of(graph.constants().begin(), graph.constants().end(),
                     [](const v1::Constant& constant) { return LiesOnGpu(constant.meta()); }) ||
         std::any_of(graph.nodes().begin(), graph.nodes().end(), [](const v1::Node& node) {
           return std::any_of(node.outputs().begin(), node.outputs().end(), LiesOnGpu);
         });
}

}  // namespace tensord::server
