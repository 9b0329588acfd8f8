// SPDX-License-Identifier: Apache-2.0
#include "server/frames/check_frame.h"

#include <cstdint>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/version.h"
#include "server/frames/check_values.h"
#include "server/frames/fields.h"

namespace tensord::server {
namespace {

using v1::FrameGuard;
using v1::FrameSource;

using GraphsByName = std::map<std::string, const v1::GraphCall*>;

// What a step of a source needs beside the base: what begins at the frame has none.
enum class Needs { kNothing, kName, kNumber, kConstant };
struct StepRule {
  FrameSource::Step step;
  bool has_base;
  Needs needs;
};
constexpr StepRule kSteps[] = {
    {FrameSource::LOCAL, false, Needs::kName},
    {FrameSource::GLOBAL, false, Needs::kName},
    {FrameSource::MODULE, false, Needs::kName},
    {FrameSource::BUILTINS, false, Needs::kNothing},
    {FrameSource::CELL, false, Needs::kName},
    {FrameSource::FUNCTION_MODE, false, Needs::kNumber},
    {FrameSource::ATTRIBUTE, true, Needs::kName},
    {FrameSource::OWN_ATTRIBUTE, true, Needs::kName},
    {FrameSource::ITEM, true, Needs::kConstant},
    {FrameSource::DICTIONARY_ITEM, true, Needs::kConstant},
    {FrameSource::KEY, true, Needs::kNumber},
    {FrameSource::ITEM_OF_KEY, true, Needs::kNumber},
    {FrameSource::TYPE, true, Needs::kNothing},
    {FrameSource::TYPE_DICTIONARY, true, Needs::kNothing},
    {FrameSource::METHOD_ORDER, true, Needs::kNothing},
    {FrameSource::CODE, true, Needs::kNothing},
    {FrameSource::CLOSURE, true, Needs::kNothing},
    {FrameSource::DEFAULT, true, Needs::kNumber},
    {FrameSource::KEYWORD_DEFAULT, true, Needs::kName},
    {FrameSource::SIZE, true, Needs::kNumber},
    {FrameSource::STRIDE, true, Needs::kNumber},
    {FrameSource::STORAGE_OFFSET, true, Needs::kNothing},
    {FrameSource::GRADIENT, true, Needs::kNothing},
    {FrameSource::CALL, true, Needs::kNothing},
    {FrameSource::TUPLE_ITEM_OF_ITERATOR, true, Needs::kNumber},
    {FrameSource::TENSOR_OF, true, Needs::kNothing},
};

// `before`: sources that come before it.
absl::Status CheckSource(const FrameSource& source, uint64_t before) {
  const StepRule* rule = nullptr;
  for (const StepRule& one : kSteps) {
    if (one.step == source.step()) rule = &one;
  }
  if (rule == nullptr) return BadField("step", source.step(), " is no step");
  if (rule->has_base) {
    TENSORD_RETURN_IF_ERROR(
        CheckReference("base", source.base(), before, "sources before this one"));
  } else if (source.base() != 0) {
    return BadField("base", FrameSource::Step_Name(source.step()), " starts from the frame");
  }
  switch (rule->needs) {
    case Needs::kNothing:
      return absl::OkStatus();
    case Needs::kName:
      return CheckNotEmpty("name", source.name());
    case Needs::kNumber:
      return source.number() < 0 ? BadField("number", "it is negative") : absl::OkStatus();
    case Needs::kConstant:
      return Within("constant", CheckConstant(source.constant()));
  }
  return absl::OkStatus();
}

absl::Status CheckRelation(const v1::Relation& relation, uint64_t sources) {
  TENSORD_RETURN_IF_ERROR(CheckNotEmpty("expression", relation.expression()));
  if (relation.symbols_size() != relation.sources_size()) {
    return BadField("symbols", relation.symbols_size(), " for ", relation.sources_size(),
                    " sources");
  }
  TENSORD_RETURN_IF_ERROR(CheckEach("symbols", relation.symbols(), [](const std::string& symbol) {
    return CheckNotEmpty("", symbol);
  }));
  return CheckEach("sources", relation.sources(),
                   [&](uint32_t source) { return CheckReference("", source, sources, "sources"); });
}

absl::Status CheckState(const v1::ProcessState& state) {
  TENSORD_RETURN_IF_ERROR(CheckNotEmpty("default_dtype", state.default_dtype()));
  return CheckEach("autocast", state.autocast(), [](const v1::AutocastState& autocast) {
    return CheckNotEmpty("device", autocast.device());
  });
}

absl::Status CheckCalled(const v1::CalledFunction& called) {
  TENSORD_RETURN_IF_ERROR(Within("function", CheckName(called.function())));
  return Within("result", CheckConstant(called.result()));
}

absl::Status CheckCondition(const FrameGuard& guard, uint64_t sources) {
  switch (guard.check_case()) {
    case FrameGuard::CHECK_NOT_SET:
      return BadField("check", "it is missing");
    case FrameGuard::kType:
      return Within("type", CheckClass(guard.type()));
    case FrameGuard::kSameObject:
      return Within("same_object", CheckName(guard.same_object()));
    case FrameGuard::kSameClass:
      return Within("same_class", CheckClass(guard.same_class()));
    case FrameGuard::kEquals:
      return Within("equals", CheckConstant(guard.equals()));
    case FrameGuard::kCode:
      return Within("code", CheckCode(guard.code()));
    case FrameGuard::kLength:
      return guard.length() < 0 ? BadField("length", "it is negative") : absl::OkStatus();
    case FrameGuard::kKeys:
      return Within("keys", CheckConstants(guard.keys()));
    case FrameGuard::kKeysUnordered:
      return Within("keys_unordered", CheckConstants(guard.keys_unordered()));
    case FrameGuard::kContains:
      return Within("contains", CheckConstant(guard.contains()));
    case FrameGuard::kLacks:
      return Within("lacks", CheckConstant(guard.lacks()));
    case FrameGuard::kHasAttribute:
      return CheckNotEmpty("has_attribute", guard.has_attribute());
    case FrameGuard::kLacksAttribute:
      return CheckNotEmpty("lacks_attribute", guard.lacks_attribute());
    case FrameGuard::kLacksOwn:
      return CheckNotEmpty("lacks_own", guard.lacks_own());
    case FrameGuard::kTensor:
      return Within("tensor", CheckTensor(guard.tensor()));
    case FrameGuard::kSameAs:
      return CheckReference("same_as", guard.same_as(), sources, "sources");
    case FrameGuard::kDistinct:
      return Within("distinct",
                    CheckEach("sources", guard.distinct().sources(), [&](uint32_t source) {
                      return CheckReference("", source, sources, "sources");
                    }));
    case FrameGuard::kRelation:
      return Within("relation", CheckRelation(guard.relation(), sources));
    case FrameGuard::kState:
      return Within("state", CheckState(guard.state()));
    case FrameGuard::kSameFunction:
      return Within("same_function", CheckFunction(guard.same_function()));
    case FrameGuard::kIteratorLength:
      return guard.iterator_length() < 0 ? BadField("iterator_length", "it is negative")
                                         : absl::OkStatus();
    case FrameGuard::kRangeLeft:
      return CheckThree("range_left", guard.range_left());
    case FrameGuard::kCalled:
      return Within("called", CheckCalled(guard.called()));
    case FrameGuard::kNotNone:
    case FrameGuard::kIsNan:
      return absl::OkStatus();
  }
  return BadField("check", "it is not of this format");
}

absl::Status CheckGuard(const FrameGuard& guard, uint64_t sources) {
  TENSORD_RETURN_IF_ERROR(CheckCondition(guard, sources));
  // Those of several sources, and of none.
  const bool is_of_one =
      !guard.has_distinct() && !guard.has_relation() && !guard.has_state() && !guard.has_called();
  if (is_of_one || guard.source() != 0) {
    return CheckReference("source", guard.source(), sources, "sources");
  }
  return absl::OkStatus();
}

absl::Status CheckProgram(const v1::FrameProgram& program) {
  if (!program.has_graph()) return BadField("graph", "it is missing");
  if (program.inputs_size() != program.graph().inputs_size()) {
    return BadField("inputs", program.inputs_size(), " for the ", program.graph().inputs_size(),
                    " inputs of the graph");
  }
  return CheckEach("inputs", program.inputs(), [&](uint32_t input) {
    return CheckBelow("", input, program.arguments(), "arguments");
  });
}

absl::Status CheckPrograms(const v1::GraphCall& call) {
  if (!call.has_inference() && !call.has_forward()) {
    return BadField("inference", "there is neither an inference nor a forward program");
  }
  if (call.has_backward() != call.has_forward()) {
    return BadField(call.has_backward() ? "forward" : "backward",
                    "there is a program of forward and backward without it");
  }
  if (call.has_inference()) {
    TENSORD_RETURN_IF_ERROR(Within("inference", CheckProgram(call.inference())));
  }
  if (call.has_forward()) {
    TENSORD_RETURN_IF_ERROR(Within("forward", CheckProgram(call.forward())));
  }
  if (call.has_backward()) {
    TENSORD_RETURN_IF_ERROR(Within("backward", CheckProgram(call.backward())));
  }
  if (call.has_backward_with_all()) {
    TENSORD_RETURN_IF_ERROR(Within("backward_with_all", CheckProgram(call.backward_with_all())));
    if (!call.has_backward() ||
        call.backward().arguments() != call.backward_with_all().arguments()) {
      return BadField("backward_with_all.arguments", call.backward_with_all().arguments(),
                      ", of backward ", call.backward().arguments());
    }
  }
  if (call.has_inference() && call.has_forward() &&
      call.inference().arguments() != call.forward().arguments()) {
    return BadField("forward.arguments", call.forward().arguments(), ", of inference ",
                    call.inference().arguments());
  }
  return absl::OkStatus();
}

// How many the graph is called with.
uint64_t ArgumentsOf(const v1::GraphCall& call) {
  return call.has_forward() ? call.forward().arguments() : call.inference().arguments();
}

// Readers make room for as many.
absl::Status CheckResults(const v1::GraphCall& call) {
  const uint64_t results = call.results();
  const uint64_t saved = uint64_t{call.saved_tensors()} + call.saved_numbers();
  const auto check = [](const char* field, uint64_t count, const v1::FrameProgram& program) {
    const auto given = static_cast<uint64_t>(program.graph().outputs_size());
    return count <= given ? absl::OkStatus()
                          : BadField(field, count, " of the ", given, " that its program gives");
  };
  if (call.has_inference()) {
    TENSORD_RETURN_IF_ERROR(check("results", results, call.inference()));
  }
  return call.has_forward() ? check("results and what is saved", results + saved, call.forward())
                            : absl::OkStatus();
}

absl::Status CheckGraph(const v1::GraphCall& call) {
  TENSORD_RETURN_IF_ERROR(CheckNotEmpty("name", call.name()));
  TENSORD_RETURN_IF_ERROR(CheckPrograms(call));
  const uint64_t results = call.results();
  const uint64_t arguments = ArgumentsOf(call);
  TENSORD_RETURN_IF_ERROR(CheckResults(call));
  TENSORD_RETURN_IF_ERROR(CheckEach("tangents", call.tangents(), [&](uint32_t tangent) {
    return CheckBelow("", tangent, results, "results");
  }));
  TENSORD_RETURN_IF_ERROR(
      CheckCount("result_is_argument", call.result_is_argument_size(), results, "results"));
  TENSORD_RETURN_IF_ERROR(CheckEach(
      "result_is_argument", call.result_is_argument(),
      [&](uint32_t argument) { return CheckOptional("", argument, arguments, "arguments"); }));
  TENSORD_RETURN_IF_ERROR(
      CheckCount("result_is_view", call.result_is_view_size(), results, "results"));
  for (int i = 0; i < call.result_is_view_size(); ++i) {
    const bool has_base = i < call.result_is_argument_size() && call.result_is_argument(i) != 0;
    if (call.result_is_view(i) && !has_base) {
      return BadField(absl::StrCat("result_is_view[", i, "]"), "it is of no argument");
    }
  }
  TENSORD_RETURN_IF_ERROR(
      CheckCount("result_is_view_of", call.result_is_view_of_size(), results, "results"));
  TENSORD_RETURN_IF_ERROR(
      CheckEach("result_is_view_of", call.result_is_view_of(),
                [&](uint32_t base) { return CheckOptional("", base, results, "results"); }));
  if (call.hidden_results() > results) {
    return BadField("hidden_results", call.hidden_results(), " of ", results, " results");
  }
  TENSORD_RETURN_IF_ERROR(
      CheckCount("result_requires_grad", call.result_requires_grad_size(), results, "results"));
  TENSORD_RETURN_IF_ERROR(
      CheckCount("has_gradient", call.has_gradient_size(), arguments, "arguments"));
  const auto tangents = static_cast<uint64_t>(call.tangents_size());
  TENSORD_RETURN_IF_ERROR(
      CheckCount("tangent_absent", call.tangent_absent_size(), tangents, "tangents"));
  TENSORD_RETURN_IF_ERROR(CheckEach(
      "changed_arguments", call.changed_arguments(),
      [&](uint32_t argument) { return CheckBelow("", argument, arguments, "arguments"); }));
  return CheckCount("tangent_layouts", call.tangent_layouts_size(), tangents, "tangents");
}

absl::Status CheckContinuation(const v1::Continuation& continuation) {
  TENSORD_RETURN_IF_ERROR(Within("code", CheckBytecode(continuation.code())));
  return Within("of", CheckCode(continuation.of()));
}

// A call reads only values that are there before it.
absl::Status CheckSplit(const v1::SplitGraph& split, const GraphsByName& graphs) {
  uint64_t values = split.arguments();
  const auto check_value = [&](uint32_t value) {
    return CheckBelow("", value, values, "values before it");
  };
  TENSORD_RETURN_IF_ERROR(
      CheckEach("calls", split.calls(), [&](const v1::SplitGraph::Call& call) -> absl::Status {
        const auto graph = graphs.find(call.graph());
        if (graph == graphs.end()) {
          return BadField("graph", "no graph is called '", call.graph(), "'");
        }
        if (static_cast<uint64_t>(call.arguments_size()) != ArgumentsOf(*graph->second)) {
          return BadField("arguments", call.arguments_size(), " for the ",
                          ArgumentsOf(*graph->second), " arguments of ", call.graph());
        }
        TENSORD_RETURN_IF_ERROR(CheckEach("arguments", call.arguments(), check_value));
        values += graph->second->results();
        return absl::OkStatus();
      }));
  return CheckEach("results", split.results(), check_value);
}

absl::Status CheckGlobal(const v1::FrameGlobal& global, const GraphsByName& graphs) {
  TENSORD_RETURN_IF_ERROR(CheckNotEmpty("name", global.name()));
  switch (global.value_case()) {
    case v1::FrameGlobal::VALUE_NOT_SET:
      return BadField("value", "it is missing");
    case v1::FrameGlobal::kModule:
      return CheckNotEmpty("module", global.module());
    case v1::FrameGlobal::kBuiltins:
      return absl::OkStatus();
    case v1::FrameGlobal::kObject:
      return Within("object", CheckName(global.object()));
    case v1::FrameGlobal::kContinuation:
      return Within("continuation", CheckContinuation(global.continuation()));
    case v1::FrameGlobal::kSplit:
      return Within("split", CheckSplit(global.split(), graphs));
  }
  return BadField("value", "it is not of this format");
}

absl::StatusOr<GraphsByName> CheckGraphs(const v1::Frame& frame) {
  TENSORD_RETURN_IF_ERROR(CheckEach("graphs", frame.graphs(), CheckGraph));
  GraphsByName named;
  TENSORD_RETURN_IF_ERROR(CheckEach("graphs", frame.graphs(), [&](const v1::GraphCall& call) {
    return named.emplace(call.name(), &call).second
               ? absl::OkStatus()
               : BadField("name", "another graph is called '", call.name(), "'");
  }));
  return named;
}

absl::Status CheckResult(const v1::Frame& frame, const GraphsByName& graphs) {
  const v1::Result& result = frame.result();
  if (!result.has_code()) {
    if (frame.graphs_size() == 0 && result.globals_size() == 0) return absl::OkStatus();
    return BadField("code", "it is missing, and there are graphs or globals for it");
  }
  TENSORD_RETURN_IF_ERROR(Within("code", CheckBytecode(result.code())));
  return CheckEach("globals", result.globals(),
                   [&](const v1::FrameGlobal& global) { return CheckGlobal(global, graphs); });
}

}  // namespace

absl::Status CheckEnvironment(const v1::FrameEnvironment& environment) {
  if (environment.format() != kFrameFormat) {
    return BadField("format", environment.format(), "; this daemon keeps frames of format ",
                    kFrameFormat);
  }
  TENSORD_RETURN_IF_ERROR(CheckNotEmpty("python", environment.python()));
  TENSORD_RETURN_IF_ERROR(CheckNotEmpty("torch", environment.torch()));
  return CheckDigest("options", environment.options());
}

absl::Status CheckFrame(const v1::Frame& frame) {
  // First, for what follows knows this format only.
  TENSORD_RETURN_IF_ERROR(Within("environment", CheckEnvironment(frame.environment())));
  TENSORD_RETURN_IF_ERROR(CheckForm(frame));
  TENSORD_RETURN_IF_ERROR(Within("code", CheckCode(frame.code())));
  TENSORD_RETURN_IF_ERROR(
      CheckEach("inlined", frame.inlined(), [](const v1::InlinedFunction& inlined) {
        TENSORD_RETURN_IF_ERROR(Within("code", CheckCode(inlined.code())));
        return CheckEach("path", inlined.path(),
                         [](const std::string& step) { return CheckNotEmpty("", step); });
      }));
  uint64_t before = 0;
  TENSORD_RETURN_IF_ERROR(CheckEach("sources", frame.sources(), [&](const FrameSource& source) {
    return CheckSource(source, before++);
  }));
  const auto sources = static_cast<uint64_t>(frame.sources_size());
  TENSORD_RETURN_IF_ERROR(CheckEach("guards", frame.guards(), [&](const FrameGuard& guard) {
    return CheckGuard(guard, sources);
  }));
  TENSORD_ASSIGN_OR_RETURN(const GraphsByName graphs, CheckGraphs(frame));
  if (!frame.has_result()) return BadField("result", "it is missing");
  return Within("result", CheckResult(frame, graphs));
}

}  // namespace tensord::server
