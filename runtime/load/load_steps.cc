// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "runtime/load/load.h"
#include "runtime/operators/externs.h"

namespace tensord::runtime {
namespace {

class StepBuilder {
 public:
  StepBuilder(const v1::Artifact& artifact, TensordProgram* program)
      : artifact_(artifact), program_(*program), state_(program->buffers.size(), State::kUnborn) {
    for (size_t i = 0; i < state_.size(); ++i) {
      if (!IsOwned(i) && program_.buffers[i].storage != Storage::kExtern) state_[i] = State::kLive;
    }
  }

  TensordError Build() {
    for (int i = 0; i < artifact_.steps_size(); ++i) {
      const v1::Step& step = artifact_.steps(i);
      TensordError code = Fail(TENSORD_CORRUPT, "it is empty");
      if (step.has_launch()) code = AddLaunch(step.launch());
      if (step.has_call()) code = AddCall(step.call());
      if (step.kind_case() == v1::Step::kFree) code = AddFree(step.free());
      if (step.has_zero_fill()) code = AddZeroFill(step.zero_fill());
      if (code != TENSORD_OK) {
        return Fail(code, "step " + std::to_string(i) + ": " + LastError());
      }
    }
    return AddOutputs();
  }

 private:
  enum class State : uint8_t { kUnborn, kLive, kDead };

  // Has memory of its own from its first use on.
  bool IsOwned(size_t number) const {
    return program_.buffers[number].storage == Storage::kOwned ||
           program_.buffers[number].standalone;
  }

  void Push(StepPlan::Kind kind, size_t index) {
    program_.steps.push_back({kind, static_cast<uint32_t>(index)});
  }

  // `number` is about to be read or written by a step.
  TensordError Use(uint32_t number) {
    if (number >= program_.buffers.size()) {
      return Fail(TENSORD_CORRUPT, "buffer " + std::to_string(number) + " is out of range");
    }
    const uint32_t root = program_.buffers[number].root;
    if (state_[root] == State::kLive) return TENSORD_OK;
    if (state_[root] == State::kDead) {
      return Fail(TENSORD_CORRUPT, "buffer " + std::to_string(number) + " is used after its end");
    }
    if (!IsOwned(root)) {
      return Fail(TENSORD_CORRUPT, "buffer " + std::to_string(number) + " is used before a value");
    }
    Push(StepPlan::kAllocate, root);
    state_[root] = State::kLive;
    return TENSORD_OK;
  }

  TensordError Write(uint32_t number) {
    TENSORD_TRY(Use(number));
    const Storage storage = program_.buffers[program_.buffers[number].root].storage;
    if (storage == Storage::kConstant) {
      return Fail(TENSORD_CORRUPT, "buffer " + std::to_string(number) + " is constant");
    }
    if (storage == Storage::kInput) WriteInput(number);
    return TENSORD_OK;
  }

  void WriteInput(uint32_t number) {
    std::vector<uint32_t>& written = program_.written_inputs;
    if (std::ranges::find(written, number) != written.end()) return;
    const uint32_t root = program_.buffers[number].root;
    const bool begins = std::ranges::none_of(
        written, [&](uint32_t before) { return program_.buffers[before].root == root; });
    if (begins && program_.input_alignment > 1) Push(StepPlan::kBeginWrite, root);
    written.push_back(number);
  }

  TensordError AddLaunch(const v1::KernelLaunch& proto) {
    if (proto.module() >= static_cast<uint32_t>(artifact_.modules_size())) {
      return Fail(TENSORD_CORRUPT, "its module is out of range");
    }
    LaunchPlan launch;
    launch.label = proto.function();
    if (!proto.description().empty()) launch.label += " (" + proto.description() + ")";
    for (uint32_t number : proto.buffers()) {
      TENSORD_TRY(Use(number));
      if (!program_.buffers[number].layout.defined) {
        return Fail(TENSORD_CORRUPT, "a kernel takes an undefined tensor");
      }
      launch.buffers.push_back(number);
      BufferPlan& root = program_.buffers[program_.buffers[number].root];
      root.in_launch = true;
      if (root.storage == Storage::kInput) program_.inputs[root.source].in_launch = true;
    }
    for (uint32_t number : proto.written()) {
      if (std::ranges::find(launch.buffers, number) == launch.buffers.end()) {
        return Fail(TENSORD_CORRUPT, "it writes a buffer that it does not take");
      }
      TENSORD_TRY(Write(number));
    }
    ExprTable& exprs = program_.exprs;
    launch.integers = static_cast<Slot>(exprs.values().size());
    launch.num_integers = static_cast<uint32_t>(proto.integers_size());
    Slot ignored = 0;
    for (const v1::SymExpr& integer : proto.integers()) TENSORD_TRY(exprs.Add(integer, &ignored));
    program_.max_launch_buffers =
        std::max(program_.max_launch_buffers, static_cast<uint32_t>(launch.buffers.size()));
    Push(StepPlan::kLaunch, program_.launches.size());
    program_.launches.push_back(std::move(launch));
    const v1::Module& module = artifact_.modules(static_cast<int>(proto.module()));
    return program_.device->AddLaunch(proto, module.kind(), program_);
  }

  TensordError AddCall(const v1::ExternCall& proto) {
    auto call = std::make_unique<CallPlan>();
    call->op = proto.op();
    call->overload = proto.overload();
    call->node = proto.node();
    call->into_out = proto.into_out();
    if (proto.has_spare_bytes()) call->spare_bytes = proto.spare_bytes();
    call->num_arguments = static_cast<uint32_t>(proto.args_size());
    call->arguments.resize(call->num_arguments);
    for (uint32_t i = 0; i < call->num_arguments; ++i) {
      TENSORD_TRY(FillArgument(proto.args(static_cast<int>(i)), i, call.get()));
    }
    call->results.assign(proto.results().begin(), proto.results().end());
    if (call->op.find("::") == std::string::npos) {
      return Fail(TENSORD_CORRUPT, "'" + call->op + "' is no operator's name");
    }
    TENSORD_TRY(call->into_out ? CheckOut(*call) : AddResults(*call));
    const auto there = std::ranges::find_if(
        call->results, [&](uint32_t result) { return program_.buffers[result].layout.defined; });
    ChooseCall(there == call->results.end() ? program_.device_type
                                            : program_.buffers[*there].layout.device,
               call.get());
    program_.max_arguments =
        std::max(program_.max_arguments, static_cast<uint32_t>(call->arguments.size()));
    Push(StepPlan::kCall, program_.calls.size());
    program_.calls.push_back(std::move(call));
    return TENSORD_OK;
  }

  TensordError CheckOut(const CallPlan& call) {
    for (uint32_t result : call.results) {
      if (std::ranges::find(call.arguments, result, &ArgumentPlan::buffer) ==
          call.arguments.end()) {
        return Fail(TENSORD_CORRUPT, "an out= result is none of the arguments");
      }
      TENSORD_TRY(Write(result));
    }
    return TENSORD_OK;
  }

  TensordError AddResults(const CallPlan& call) {
    for (const ArgumentPlan& argument : call.arguments) {
      if (argument.buffer == ArgumentPlan::kNothing) continue;
      const uint32_t root = program_.buffers[argument.buffer].root;
      // The result may be a view of its argument.
      if (program_.buffers[root].storage == Storage::kWorkspace) program_.reuses_workspace = false;
    }
    for (uint32_t result : call.results) {
      if (result >= program_.buffers.size()) {
        return Fail(TENSORD_CORRUPT,
                    "result buffer " + std::to_string(result) + " is out of range");
      }
      BufferPlan& buffer = program_.buffers[result];
      if (buffer.root == result && state_[result] == State::kUnborn && !buffer.standalone) {
        // torch's own tensor is taken, so an owned one need not be allocated and copied into.
        buffer.storage = Storage::kExtern;
        state_[result] = State::kLive;
      } else {
        TENSORD_TRY(Write(result));
      }
    }
    return TENSORD_OK;
  }

  TensordError FillArgument(const v1::Argument& proto, size_t index, CallPlan* call) {
    ArgumentPlan argument{};
    argument.buffer = argument.slot = argument.items = ArgumentPlan::kNothing;
    TensordValue& value = argument.value;
    switch (proto.kind_case()) {
      case v1::Argument::kValue:
        TENSORD_TRY(FillTensor(proto.value().value(), &argument));
        break;
      case v1::Argument::kInteger:
        Set(TENSORD_INT, 0, &value);
        TENSORD_TRY(program_.exprs.Add(proto.integer(), &argument.slot));
        break;
      case v1::Argument::kText:
        value.kind = TENSORD_STRING;
        value.text = call->texts.emplace_back(proto.text()).c_str();
        value.size = proto.text().size();
        break;
      case v1::Argument::kList:
        TENSORD_TRY(FillList(proto.list(), &argument, call));
        break;
      default:
        TENSORD_TRY(FillConstant(proto, &value));
    }
    call->arguments[index] = argument;
    return TENSORD_OK;
  }

  static void Set(TensordKind kind, int64_t integer, TensordValue* value) {
    value->kind = kind;
    value->integer = integer;
  }

  TensordError FillTensor(uint32_t number, ArgumentPlan* argument) {
    TENSORD_TRY(Use(number));
    // An absent optional result stays absent as an argument.
    const bool is_there = program_.buffers[number].layout.defined;
    Set(is_there ? TENSORD_TENSOR : TENSORD_NONE, 0, &argument->value);
    if (is_there) argument->buffer = number;
    return TENSORD_OK;
  }

  // The items follow all arguments that there are.
  TensordError FillList(const v1::ArgumentList& proto, ArgumentPlan* argument, CallPlan* call) {
    const size_t first = call->arguments.size(), size = static_cast<size_t>(proto.items_size());
    argument->value.kind = TENSORD_LIST;
    argument->value.items = nullptr;
    argument->value.size = size;
    argument->items = static_cast<uint32_t>(first);
    call->arguments.resize(first + size);
    for (size_t i = 0; i < size; ++i) {
      TENSORD_TRY(FillArgument(proto.items(static_cast<int>(i)), first + i, call));
    }
    return TENSORD_OK;
  }

  // What is the same in every call.
  static TensordError FillConstant(const v1::Argument& proto, TensordValue* value) {
    switch (proto.kind_case()) {
      case v1::Argument::kNone:
        Set(TENSORD_NONE, 0, value);
        break;
      case v1::Argument::kReal:
        value->kind = TENSORD_DOUBLE;
        value->real = proto.real();
        break;
      case v1::Argument::kBoolean:
        Set(TENSORD_BOOL, proto.boolean(), value);
        break;
      case v1::Argument::kDtype: {
        const DTypeInfo* dtype = FindDType(proto.dtype());
        if (dtype == nullptr) return Fail(TENSORD_CORRUPT, "an argument has an unknown dtype");
        Set(TENSORD_DTYPE, dtype->torch, value);
        break;
      }
      case v1::Argument::kDevice:
        Set(TENSORD_DEVICE, TorchDevice(proto.device()), value);
        break;
      case v1::Argument::kMemoryFormat:
        Set(TENSORD_MEMORY_FORMAT, TorchMemoryFormat(proto.memory_format()), value);
        break;
      case v1::Argument::kLayoutStrided:
        Set(TENSORD_LAYOUT, 0, value);
        break;
      default:
        return Fail(TENSORD_CORRUPT, "an argument is empty");
    }
    const bool is_named = value->kind == TENSORD_DEVICE || value->kind == TENSORD_MEMORY_FORMAT;
    if (is_named && value->integer < 0) {
      return Fail(TENSORD_CORRUPT, "an argument has an unknown device or memory format");
    }
    return TENSORD_OK;
  }

  TensordError AddFree(uint32_t number) {
    if (number >= program_.buffers.size() || state_[number] != State::kLive ||
        (program_.buffers[number].storage != Storage::kOwned &&
         program_.buffers[number].storage != Storage::kExtern)) {
      return Fail(TENSORD_CORRUPT,
                  "buffer " + std::to_string(number) + " is not one that can be freed now");
    }
    state_[number] = State::kDead;
    Push(StepPlan::kFree, number);
    return TENSORD_OK;
  }

  TensordError AddZeroFill(const v1::ZeroFill& proto) {
    ZeroFillPlan fill;
    TENSORD_TRY(program_.exprs.Add(proto.offset(), &fill.offset));
    TENSORD_TRY(program_.exprs.Add(proto.bytes(), &fill.bytes));
    program_.uses_workspace = true;
    Push(StepPlan::kZeroFill, program_.zero_fills.size());
    program_.zero_fills.push_back(fill);
    return TENSORD_OK;
  }

  TensordError AddOutputs() {
    std::vector<int> uses(program_.buffers.size(), 0);
    for (int i = 0; i < artifact_.outputs_size(); ++i) {
      TENSORD_TRY(AddOutput(artifact_.outputs(i), i));
      const OutputPlan& output = program_.outputs.back();
      if (output.kind == OutputPlan::kBuffer) ++uses[program_.buffers[output.index].root];
    }
    for (OutputPlan& output : program_.outputs) {
      if (output.kind != OutputPlan::kBuffer) continue;
      const BufferPlan& buffer = program_.buffers[output.index];
      output.take = uses[buffer.root] == 1 &&
                    (buffer.storage == Storage::kOwned || buffer.storage == Storage::kExtern);
    }
    return TENSORD_OK;
  }

  TensordError AddOutput(const v1::ProgramOutput& proto, int number) {
    const std::string name = "output " + std::to_string(number);
    OutputPlan output;
    switch (proto.kind_case()) {
      case v1::ProgramOutput::kNone:
        break;
      case v1::ProgramOutput::kInteger:
        output.kind = OutputPlan::kInteger;
        if (program_.exprs.Add(proto.integer(), &output.index) != TENSORD_OK) {
          return Fail(TENSORD_CORRUPT, name + ": " + LastError());
        }
        break;
      case v1::ProgramOutput::kBuffer: {
        if (Use(proto.buffer()) != TENSORD_OK) {
          return Fail(TENSORD_CORRUPT, name + ": " + LastError());
        }
        const BufferPlan& buffer = program_.buffers[proto.buffer()];
        if (program_.buffers[buffer.root].storage == Storage::kWorkspace) {
          return Fail(TENSORD_CORRUPT, name + " lies in the workspace");
        }
        if (!buffer.layout.defined) break;
        output.kind = OutputPlan::kBuffer;
        output.index = proto.buffer();
        break;
      }
      case v1::ProgramOutput::KIND_NOT_SET:
        return Fail(TENSORD_CORRUPT, name + " is empty");
    }
    program_.outputs.push_back(output);
    return TENSORD_OK;
  }

  const v1::Artifact& artifact_;
  TensordProgram& program_;
  std::vector<State> state_;
};

}  // namespace

TensordError BuildSteps(const v1::Artifact& artifact, TensordProgram* program) {
  return StepBuilder(artifact, program).Build();
}

}  // namespace tensord::runtime
