// SPDX-License-Identifier: Apache-2.0
#include "compiler/plan/fusion_graph.h"

#include <absl/container/flat_hash_map.h>
#include <absl/strings/str_split.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "compiler/plan/step_work.h"
#include "compiler/schedule/access.h"
#include "compiler/sym/expr_proto.h"

namespace tensord::compiler {
namespace {

constexpr char kLibraryCall[] = "a library call";
constexpr char kOwnKernel[] = "attention has a kernel of its own";
constexpr char kNotTried[] = "not tried: nearer ones share the memory";

// Of a step; a longer list is no help.
constexpr size_t kMostNodes = 128;

class Describer {
 public:
  Describer(const v1::Graph& captured, const Program& program, const Schedule& schedule)
      : captured_(captured),
        program_(program),
        schedule_(schedule),
        named_(captured.nodes_size()),
        place_(captured.nodes_size(), -1),
        visited_(captured.nodes_size(), 0) {
    for (int i = 0; i < captured.nodes_size(); ++i) number_.emplace(captured.nodes(i).name(), i);
    for (const v1::Node& node : captured.nodes()) {
      if (!node.line().empty()) text_.emplace(node.source(), node.line());
    }
  }

  v1::FusionGraph Run(const std::vector<KernelSource>& kernels, const v1::Artifact& artifact) {
    const std::vector<PlanPart> parts = PartsOf(kernels, artifact);
    for (const ScheduledStep& step : schedule_.steps) {
      for (const std::string& name : NamesOf(step)) MarkNamed(name);
    }
    for (const BufferInfo& buffer : program_.buffers) MarkNamed(buffer.name);
    for (size_t i = 0; i < schedule_.steps.size(); ++i) {
      AddStep(schedule_.steps[i], parts[i]);
      AddWork(WorkOf(program_, schedule_.steps[i], kernels[i].launch));
    }
    AddEdges();
    return std::move(graph_);
  }

 private:
  // What of the plan a step became.
  struct PlanPart {
    bool is_kernel = false;
    uint32_t module = 0;  // of a kernel
    std::vector<uint32_t> steps;
  };

  // By step of the schedule. Between them the plan has steps of its own.
  std::vector<PlanPart> PartsOf(const std::vector<KernelSource>& kernels,
                                const v1::Artifact& artifact) const {
    std::vector<PlanPart> parts;
    int at = 0;
    for (size_t i = 0; i < schedule_.steps.size(); ++i) {
      const bool call = kernels[i].functions.empty();
      size_t left = call ? 1 : kernels[i].functions.size();
      PlanPart& part = parts.emplace_back(PlanPart{.is_kernel = !call});
      for (; left > 0; ++at) {
        TENSORD_CHECK(at < artifact.steps_size(), "the plan is not the schedule's");
        const v1::Step& step = artifact.steps(at);
        if (call ? !step.has_call() : !step.has_launch()) continue;
        if (!call) part.module = step.launch().module();
        part.steps.push_back(static_cast<uint32_t>(at));
        --left;
      }
    }
    return parts;
  }

  // The captured nodes that a step is named for: those whose results it computes as buffers.
  std::vector<std::string> NamesOf(const ScheduledStep& step) const {
    if (const auto* kernel = std::get_if<Kernel>(&step.work)) return NodesOf(*kernel);
    const auto& op = std::get<ExternOp>(program_.operations[std::get<int>(step.work)]);
    return absl::StrSplit(op.origin, ", ", absl::SkipEmpty());
  }

  void AddStep(const ScheduledStep& step, const PlanPart& part) {
    v1::FusionStep& added = *graph_.add_steps();
    if (part.is_kernel) {
      added.set_kernel(part.module);
    } else {
      added.set_call(std::get<ExternOp>(program_.operations[std::get<int>(step.work)]).op);
    }
    added.mutable_plan_steps()->Assign(part.steps.begin(), part.steps.end());
    std::vector<int> captured;
    ++visit_;
    std::vector<std::string> others;  // that rewrites have put in
    for (const std::string& name : NamesOf(step)) {
      const auto found = number_.find(name);
      if (found == number_.end()) {
        others.push_back(name);
      } else {
        AddWithInlined(found->second, &captured);
      }
    }
    std::sort(captured.begin(), captured.end());
    for (const int number : captured) added.add_nodes(NodeOf(number));
    for (const std::string& name : others) {
      if (added.nodes_size() == static_cast<int>(kMostNodes)) break;
      added.add_nodes(OtherNodeOf(name));
    }
  }

  // Of the step that was added last.
  void AddWork(const StepWork& work) {
    v1::StepWork& said = *graph_.mutable_steps(graph_.steps_size() - 1)->mutable_work();
    if (work.bytes_read) sym::ToProto(*work.bytes_read, said.mutable_bytes_read());
    if (work.bytes_written) sym::ToProto(*work.bytes_written, said.mutable_bytes_written());
    if (work.flops) sym::ToProto(*work.flops, said.mutable_flops());
  }

  void MarkNamed(const std::string& name) {
    if (const auto found = number_.find(name); found != number_.end()) named_[found->second] = true;
  }

  // The node, and before it those that are no buffers: their code is in that of their readers.
  void AddWithInlined(int number, std::vector<int>* nodes) {
    std::vector<int> open = {number};
    while (!open.empty() && nodes->size() < kMostNodes) {
      const int next = open.back();
      open.pop_back();
      if (std::exchange(visited_[next], visit_) == visit_) continue;
      nodes->push_back(next);
      for (const v1::Argument& argument : captured_.nodes(next).args())
        AddOperands(argument, &open);
    }
  }

  void AddOperands(const v1::Argument& argument, std::vector<int>* nodes) const {
    for (const v1::Argument& item : argument.list().items()) AddOperands(item, nodes);
    if (!argument.has_value()) return;
    const int64_t number =
        int64_t{argument.value().value()} - captured_.inputs_size() - captured_.constants_size();
    if (number < 0 || number >= captured_.nodes_size()) return;
    if (!named_[static_cast<size_t>(number)]) nodes->push_back(static_cast<int>(number));
  }

  uint32_t NodeOf(int number) {
    int& place = place_[number];
    if (place >= 0) return static_cast<uint32_t>(place);
    place = graph_.nodes_size();
    const v1::Node& captured = captured_.nodes(number);
    v1::FusionNode& node = *graph_.add_nodes();
    node.set_name(captured.name());
    node.set_op(captured.op());
    if (!captured.source().empty()) node.set_line(LineOf(captured.source()));
    return static_cast<uint32_t>(place);
  }

  uint32_t OtherNodeOf(const std::string& name) {
    const auto [place, is_new] = others_.emplace(name, graph_.nodes_size());
    if (is_new) graph_.add_nodes()->set_name(name);
    return place->second;
  }

  uint32_t LineOf(const std::string& source) {
    const auto [place, is_new] = lines_.emplace(source, graph_.lines_size());
    if (is_new) {
      v1::SourceLine& line = *graph_.add_lines();
      line.set_source(source);
      if (const auto text = text_.find(source); text != text_.end()) line.set_text(text->second);
    }
    return place->second;
  }

  Accesses AccessesOfStep(const ScheduledStep& step) const {
    if (const int* op = std::get_if<int>(&step.work)) return AccessesOf(program_.operations[*op]);
    Accesses all;
    for (const Nest& nest : std::get<Kernel>(step.work).nests) {
      for (const auto* members : {&nest.members, &nest.after}) {
        for (const NestMember& member : *members) {
          const Accesses one = AccessesOf(program_.operations[member.op]);
          all.reads.insert(one.reads.begin(), one.reads.end());
          all.writes.insert(one.writes.begin(), one.writes.end());
        }
      }
    }
    return all;
  }

  void AddEdges() {
    std::map<std::pair<int, int>, int64_t> flows;
    std::vector<Accesses> accesses;
    std::map<BufferId, int> writer;
    for (size_t i = 0; i < schedule_.steps.size(); ++i) {
      const int step = static_cast<int>(i);
      accesses.push_back(AccessesOfStep(schedule_.steps[i]));
      for (const BufferId id : accesses.back().reads) {
        const auto from = writer.find(id);
        if (from == writer.end() || from->second == step) continue;
        flows[{from->second, step}] += BufferBytes(program_.buffers[id]);
      }
      for (const BufferId id : accesses.back().writes) writer[id] = step;
    }
    std::map<std::pair<int, int>, std::string> why;
    for (const Rejection& rejection : schedule_.rejections) {
      why[std::minmax(rejection.a, rejection.b)] = rejection.why;
    }
    for (const auto& [pair, bytes] : flows) {
      const auto said = why.find(pair);
      AddEdge(pair, bytes, said != why.end() ? said->second : ReasonOf(pair.first, pair.second));
    }
    for (const auto& [pair, reason] : why) {
      if (flows.count(pair) != 0) continue;
      int64_t bytes = 0;
      for (const BufferId id : accesses[pair.first].reads) {
        if (accesses[pair.second].reads.count(id) != 0) bytes += BufferBytes(program_.buffers[id]);
      }
      AddEdge(pair, bytes, reason).set_reads(true);
    }
  }

  // Why two steps are apart, of which scheduling said nothing.
  const char* ReasonOf(int a, int b) const {
    const char* reason = kNotTried;
    for (const int step : {a, b}) {
      const ScheduledStep& one = schedule_.steps[static_cast<size_t>(step)];
      if (!std::holds_alternative<int>(one.work)) continue;
      if (AttentionOf(program_, one) == nullptr) return kLibraryCall;
      reason = kOwnKernel;
    }
    return reason;
  }

  v1::FusionEdge& AddEdge(std::pair<int, int> pair, int64_t bytes, const std::string& why) {
    v1::FusionEdge& edge = *graph_.add_edges();
    edge.set_from(static_cast<uint32_t>(pair.first));
    edge.set_to(static_cast<uint32_t>(pair.second));
    edge.set_bytes(static_cast<uint64_t>(bytes));
    edge.set_why(why);
    return edge;
  }

  const v1::Graph& captured_;
  const Program& program_;
  const Schedule& schedule_;
  absl::flat_hash_map<std::string, int> number_;        // of captured nodes, by name
  absl::flat_hash_map<std::string, std::string> text_;  // of lines, by source
  std::vector<bool> named_;                             // captured nodes whose results are buffers
  std::vector<int> place_;    // of captured nodes in graph_; -1: it has none yet
  std::vector<int> visited_;  // in which visit a captured node was seen last
  int visit_ = 0;             // of a step
  std::map<std::string, uint32_t> others_;
  absl::flat_hash_map<std::string, uint32_t> lines_;  // by source
  v1::FusionGraph graph_;
};

}  // namespace

v1::FusionGraph ToFusionGraph(const v1::Graph& captured, const Program& program,
                              const Schedule& schedule, const std::vector<KernelSource>& kernels,
                              const v1::Artifact& artifact) {
  return Describer(captured, program, schedule).Run(kernels, artifact);
}

}  // namespace tensord::compiler
