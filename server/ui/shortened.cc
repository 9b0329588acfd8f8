// SPDX-License-Identifier: Apache-2.0
#include "server/ui/shortened.h"

#include <string>
#include <utility>

namespace tensord::server {
namespace {

void Shorten(v1::Graph* graph) {
  v1::Graph kept;
  for (v1::Node& node : *graph->mutable_nodes()) {
    v1::Node& added = *kept.add_nodes();
    added.set_op(std::move(*node.mutable_op()));
    added.set_name(std::move(*node.mutable_name()));
    added.set_source(std::move(*node.mutable_source()));
    added.set_line(std::move(*node.mutable_line()));
  }
  *graph = std::move(kept);
}

void Shorten(v1::GraphCall* call) {
  if (call->has_inference()) Shorten(call->mutable_inference()->mutable_graph());
  if (call->has_forward()) Shorten(call->mutable_forward()->mutable_graph());
  if (call->has_backward()) Shorten(call->mutable_backward()->mutable_graph());
  if (call->has_backward_with_all()) Shorten(call->mutable_backward_with_all()->mutable_graph());
}

void Shorten(v1::FrameGuard* guard) {
  std::string text = guard->text();
  if (text.empty()) {
    const auto* check = v1::FrameGuard::descriptor()->FindFieldByNumber(guard->check_case());
    text = check == nullptr ? "nothing" : check->name();
  }
  const uint32_t source = guard->source();
  guard->Clear();
  guard->set_source(source);
  guard->set_text(std::move(text));
}

}  // namespace

void Shorten(v1::Artifact* artifact) {
  v1::Artifact kept;
  *kept.mutable_target() = artifact->target();
  *kept.mutable_modules() = std::move(*artifact->mutable_modules());
  for (const v1::Input& input : artifact->inputs()) kept.add_inputs()->set_name(input.name());
  for (const v1::Step& step : artifact->steps()) {
    v1::Step& added = *kept.add_steps();
    if (step.has_launch()) {
      added.mutable_launch()->set_module(step.launch().module());
      added.mutable_launch()->set_function(step.launch().function());
      added.mutable_launch()->set_description(step.launch().description());
    } else if (step.has_call()) {
      added.mutable_call()->set_op(step.call().op());
      added.mutable_call()->set_overload(step.call().overload());
    } else if (step.has_free()) {
      added.set_free(step.free());
    } else {
      added.mutable_zero_fill();
    }
  }
  *artifact = std::move(kept);
}

void Shorten(v1::Frame* frame) {
  frame->clear_result();
  frame->clear_sources();
  for (v1::FrameGuard& guard : *frame->mutable_guards()) Shorten(&guard);
  for (v1::GraphCall& call : *frame->mutable_graphs()) Shorten(&call);
}

}  // namespace tensord::server
