// SPDX-License-Identifier: Apache-2.0
#include "compiler/plan/emit_plan.h"

#include <map>
#include <tuple>

#include "base/check.h"
#include "base/version.h"
#include "compiler/sym/expr_proto.h"

namespace tensord::compiler {
namespace {

void FillMeta(DType dtype, v1::DeviceType device, const std::vector<Expr>& sizes,
              const std::vector<Expr>& strides, const Expr& offset, v1::TensorMeta* meta) {
  meta->set_dtype(dtype);
  meta->set_device(device);
  for (const Expr& size : sizes) sym::ToProto(size, meta->add_sizes());
  for (const Expr& stride : strides) sym::ToProto(stride, meta->add_strides());
  sym::ToProto(offset, meta->mutable_storage_offset());
}

class PlanEmitter {
 public:
  PlanEmitter(const Graph& graph, const Program& program, const MemoryPlan& memory,
              v1::CompileResult* result)
      : graph_(graph),
        program_(program),
        memory_(memory),
        result_(result),
        artifact_(*result->mutable_artifact()) {
    for (size_t i = 0; i < program_.buffers.size(); ++i) {
      if (memory_.places[i].kind != Place::kExtern) continue;
      last_used_[memory_.last_use[i]].push_back(static_cast<BufferId>(i));
    }
  }

  void Head(const v1::Target& target) {
    artifact_.set_format_version(kArtifactFormat);
    *artifact_.mutable_target() = target;
    for (const v1::Symbol& symbol : graph_.symbols) *artifact_.add_symbols() = symbol;
    for (size_t i = 0; i < graph_.inputs.size(); ++i) {
      const GraphInput& input = graph_.inputs[i];
      v1::Input* out = artifact_.add_inputs();
      out->set_name(input.name);
      out->set_is_parameter(input.is_parameter);
      out->set_is_donated(input.is_donated);
      if (!input.is_tensor) {
        sym::ToProto(input.integer, out->mutable_size());
        Bind(input.integer, i, -1);
        continue;
      }
      FillMeta(input.tensor.dtype, input.tensor.device, input.tensor.sizes, input.tensor.strides,
               input.tensor.offset, out->mutable_tensor());
      for (size_t d = 0; d < input.tensor.sizes.size(); ++d) {
        Bind(input.tensor.sizes[d], i, static_cast<int>(d));
      }
    }
    for (const v1::Constant& constant : graph_.constants) *artifact_.add_constants() = constant;
    // Buffers keep their numbers; those without a place are never referred to, but keep the row.
    // The blocks' rows follow, before those of views.
    for (size_t i = 0; i < program_.buffers.size(); ++i) AddBuffer(static_cast<BufferId>(i));
    for (const MemoryBlock& block : memory_.blocks) AddBlock(block);
    sym::ToProto(memory_.workspace_bytes, artifact_.mutable_workspace_bytes());
    if (!memory_.blocks.empty()) {
      sym::ToProto(memory_.blocks_bytes, artifact_.mutable_standalone_bytes());
    }
  }

  // Every launch leaves the counters as it finds them: zero.
  void ZeroCounters() {
    if (memory_.counters_bytes.Is(0)) return;
    v1::ZeroFill* fill = artifact_.add_steps()->mutable_zero_fill();
    sym::ToProto(memory_.counters_offset, fill->mutable_offset());
    sym::ToProto(memory_.counters_bytes, fill->mutable_bytes());
  }

  void Launch(const KernelSource& kernel, const Place& scratch) {
    auto [it, is_new] = unit_of_.emplace(kernel.source, result_->units_size());
    if (is_new) {
      v1::KernelUnit* unit = result_->add_units();
      unit->set_source(kernel.source);
      for (const KernelFunction& f : kernel.functions) unit->add_functions(f.name);
      unit->set_description(DescribeNodes(kernel.nodes));
      artifact_.add_modules();  // its kind comes from the JIT
    }
    v1::KernelUnit* unit = result_->mutable_units(it->second);
    for (const std::string& node : kernel.nodes) unit->add_nodes(node);
    // In a block it is a buffer: either way its address follows those of the kernel's buffers.
    const int buffer = scratch.block < 0 ? -1 : ScratchBuffer(kernel, scratch);
    for (const KernelFunction& function : kernel.functions) {
      v1::KernelLaunch* launch = AddLaunch(kernel, it->second, function);
      if (buffer >= 0) {
        launch->add_buffers(buffer);
        launch->add_written(buffer);
      } else if (scratch.kind == Place::kWorkspace) {
        sym::ToProto(scratch.offset, launch->mutable_cuda()->mutable_scratch());
      }
    }
  }

  void Call(const ExternOp& op, int step) {
    v1::ExternCall call;
    call.set_op(op.op);
    call.set_overload(op.overload);
    call.set_node(op.origin);
    for (const ExternArg& arg : op.args) FillArgument(arg, call.add_args());
    for (const BufferView& out : op.outs) {  // they are the operator's last parameters
      call.add_args()->mutable_value()->set_value(ViewBuffer(out));
      call.add_results(ViewBuffer(out));
    }
    call.set_into_out(!op.outs.empty());
    if (!memory_.spare_bytes.empty()) {
      call.set_spare_bytes(static_cast<uint64_t>(memory_.spare_bytes[step]));
    }
    if (op.outs.empty()) {
      // An absent result is a buffer without a dtype. So is one that nobody reads: an operator may
      // leave it out, and its memory is free at once.
      for (BufferId id : op.results)
        call.add_results(id >= 0 && !IsUnused(id, step) ? id : AbsentBuffer());
    }
    *artifact_.add_steps()->mutable_call() = std::move(call);
  }

  void FreeAfter(int step) {
    const auto it = last_used_.find(step);
    if (it == last_used_.end()) return;
    for (BufferId id : it->second) {
      if (unused_.count(id) == 0) artifact_.add_steps()->set_free(static_cast<uint32_t>(id));
    }
  }

  void Outputs() {
    for (const ProgramOutput& output : program_.outputs) {
      v1::ProgramOutput* out = artifact_.add_outputs();
      switch (output.kind) {
        case ProgramOutput::kTensor:
          out->set_buffer(ResultBuffer(output));
          break;
        case ProgramOutput::kInteger:
          sym::ToProto(output.integer, out->mutable_integer());
          break;
        case ProgramOutput::kNone:
          out->set_none(true);
          break;
      }
    }
  }

 private:
  v1::KernelLaunch* AddLaunch(const KernelSource& kernel, int module,
                              const KernelFunction& function) {
    v1::KernelLaunch* launch = artifact_.add_steps()->mutable_launch();
    launch->set_module(module);
    launch->set_function(function.name);
    for (BufferId id : kernel.launch.buffers) launch->add_buffers(id);
    for (BufferId id : kernel.launch.written) launch->add_written(id);
    for (const Expr& integer : kernel.launch.integers)
      sym::ToProto(integer, launch->add_integers());
    launch->set_description(DescribeNodes(kernel.nodes));
    if (!function.cuda) {
      sym::ToProto(kernel.launch.scratch_bytes, launch->mutable_scratch_bytes_per_thread());
      return launch;
    }
    v1::CudaLaunch* cuda = launch->mutable_cuda();
    sym::ToProto(function.cuda->grid, cuda->mutable_grid());
    cuda->set_block(function.cuda->block);
    cuda->set_shared_bytes(function.cuda->shared_bytes);
    if (function.cuda->waits_itself) cuda->set_waits_itself(true);
    if (!kernel.launch.counters.Is(0)) {
      sym::ToProto(memory_.counters_offset, cuda->mutable_counters());
    }
    return launch;
  }

  // The row of a launch's scratch in a block.
  int ScratchBuffer(const KernelSource& kernel, const Place& place) {
    v1::Buffer* buffer = artifact_.add_buffers();
    FillMeta(v1::DTYPE_UINT8, v1::DEVICE_TYPE_CUDA, {kernel.launch.scratch_bytes}, {Expr(1)},
             Expr(0), buffer->mutable_meta());
    InBlock(place, 1, buffer);
    return artifact_.buffers_size() - 1;
  }

  bool IsUnused(BufferId id, int step) {
    if (memory_.places[id].kind != Place::kExtern || memory_.last_use[id] != step) return false;
    unused_.insert(id);
    return true;
  }

  // The first input that shows a bare symbol binds it, but for one that has a definition.
  void Bind(const Expr& size, size_t input, int dim) {
    const sym::Atom* atom = size.AsAtom();
    if (atom == nullptr || atom->kind != sym::AtomKind::kSize) return;
    if (graph_.symbols[atom->id].has_definition() || !bound_.insert(atom->id).second) return;
    v1::SymbolBinding* binding = artifact_.add_bindings();
    binding->set_symbol(atom->id);
    binding->set_input(static_cast<uint32_t>(input));
    if (dim >= 0) binding->set_dim(dim);
  }

  void AddBuffer(BufferId id) {
    const BufferInfo& info = program_.buffers[id];
    v1::Buffer* buffer = artifact_.add_buffers();
    const Place& place = memory_.places[id];
    if (place.kind == Place::kNone) {
      buffer->set_extern_result(true);  // never referred to
      return;
    }
    const Expr offset =
        place.kind == Place::kInput ? graph_.inputs[info.number].tensor.offset : Expr(0);
    const BufferView whole = ViewOfBuffer(id, info);
    FillMeta(TypeOf(whole), info.device, whole.sizes, whole.strides, offset,
             buffer->mutable_meta());
    switch (place.kind) {
      case Place::kInput:
        buffer->set_input(info.number);
        break;
      case Place::kConstant:
        buffer->set_constant(info.number);
        break;
      case Place::kWorkspace:
        if (place.block >= 0) {
          InBlock(place, ItemSize(TypeOf(whole)), buffer);
        } else {
          sym::ToProto(place.offset, buffer->mutable_workspace());
        }
        break;
      case Place::kOwned:
        buffer->set_owned(true);
        break;
      case Place::kExtern:
        buffer->set_extern_result(true);
        break;
      case Place::kNone:
        break;
    }
  }

  void AddBlock(const MemoryBlock& block) {
    v1::Buffer* buffer = artifact_.add_buffers();
    const v1::DeviceType device =
        artifact_.target().has_cuda() ? v1::DEVICE_TYPE_CUDA : v1::DEVICE_TYPE_CPU;
    FillMeta(v1::DTYPE_UINT8, device, {Expr(block.bytes)}, {Expr(1)}, Expr(0),
             buffer->mutable_meta());
    sym::ToProto(block.offset, buffer->mutable_workspace());
    buffer->set_standalone(true);
    if (block.donor != MemoryBlock::kNoDonor) {
      buffer->set_donor(static_cast<uint32_t>(block.donor));
    }
  }

  // A buffer that is a part of a block.
  void InBlock(const Place& place, int item_size, v1::Buffer* buffer) {
    const int64_t offset = *place.offset.AsConstant();
    buffer->set_view_of(static_cast<uint32_t>(program_.buffers.size()) + place.block);
    sym::ToProto(Expr(offset / item_size), buffer->mutable_meta()->mutable_storage_offset());
  }

  uint32_t AbsentBuffer() {
    artifact_.add_buffers()->set_extern_result(true);
    return artifact_.buffers_size() - 1;
  }

  // What the library takes a view's elements for.
  DType TypeOf(const BufferView& view) const {
    const DType part = program_.buffers[view.buffer].dtype;
    return view.is_complex ? ComplexType(part) : part;
  }

  // The buffer row of a view: the buffer's own when the layout is the same. `as`: the type that the
  // view shows, its own where it is unspecified.
  uint32_t ViewBuffer(const BufferView& view, DType as = v1::DTYPE_UNSPECIFIED) {
    const BufferInfo& info = program_.buffers[view.buffer];
    const BufferView whole = ViewOfBuffer(view.buffer, info);
    const DType type = as == v1::DTYPE_UNSPECIFIED ? TypeOf(view) : as;
    if (type == TypeOf(whole) && view.offset.Is(0) && view.sizes == whole.sizes &&
        view.strides == whole.strides) {
      return view.buffer;
    }
    auto [it, is_new] =
        views_.emplace(std::make_tuple(view.buffer, type, view.sizes, view.strides, view.offset),
                       artifact_.buffers_size());
    if (is_new) AddView(view, type);
    return it->second;
  }

  // The row of a result, which no other tensor has.
  uint32_t ResultBuffer(const ProgramOutput& output) {
    const uint32_t buffer = ViewBuffer(output.view, output.dtype);
    const BufferInfo& memory = program_.buffers[output.view.buffer];
    if (buffer == static_cast<uint32_t>(output.view.buffer) && memory.kind == BufferKind::kInput) {
      shown_by_.emplace(buffer, memory.number);
    }
    if (shown_by_.emplace(buffer, output.tensor).first->second == output.tensor) return buffer;
    auto [it, is_new] =
        other_tensors_.emplace(std::make_pair(buffer, output.tensor), artifact_.buffers_size());
    if (is_new) AddView(output.view, artifact_.buffers(buffer).meta().dtype());
    return it->second;
  }

  void AddView(const BufferView& view, DType type) {
    const BufferInfo& info = program_.buffers[view.buffer];
    const bool is_complex = ViewOfBuffer(view.buffer, info).is_complex;
    Expr base(0);  // offsets count from the storage's start
    const Place& place = memory_.places[view.buffer];
    if (place.kind == Place::kInput) {
      base = graph_.inputs[info.number].tensor.offset;
      if (is_complex && !view.is_complex) base = base * 2;
      if (view.is_complex && !is_complex) base = sym::FloorDiv(base, Expr(2));
    }
    if (place.block >= 0) base = Expr(*place.offset.AsConstant() / ItemSize(type));
    v1::Buffer* buffer = artifact_.add_buffers();
    FillMeta(type, info.device, view.sizes, view.strides, base + view.offset,
             buffer->mutable_meta());
    buffer->set_view_of(view.buffer);
  }

  void FillArgument(const ExternArg& arg, v1::Argument* out) {
    if (const auto* plain = std::get_if<v1::Argument>(&arg.value)) {
      *out = *plain;
    } else if (const auto* view = std::get_if<BufferView>(&arg.value)) {
      out->mutable_value()->set_value(ViewBuffer(*view));
    } else {
      v1::ArgumentList* list = out->mutable_list();
      for (const ExternArg& item : std::get<ExternArgList>(arg.value)) {
        FillArgument(item, list->add_items());
      }
    }
  }

  const Graph& graph_;
  const Program& program_;
  const MemoryPlan& memory_;
  v1::CompileResult* result_;
  v1::Artifact& artifact_;
  std::map<std::string, int> unit_of_;
  std::map<int, std::vector<BufferId>> last_used_;  // by step: what library calls have made
  std::set<int> bound_;
  std::set<BufferId> unused_;  // results of operators
  std::map<std::tuple<BufferId, DType, std::vector<Expr>, std::vector<Expr>, Expr>, int> views_;
  std::map<uint32_t, int> shown_by_;  // rows of results: the tensor that each is
  std::map<std::pair<uint32_t, int>, int> other_tensors_;  // rows of others that show the same
};

}  // namespace

void EmitPlan(const Graph& graph, const Program& program, const Schedule& schedule,
              const std::vector<KernelSource>& kernels, const MemoryPlan& memory,
              const v1::Target& target, v1::CompileResult* result) {
  PlanEmitter emitter(graph, program, memory, result);
  emitter.Head(target);
  emitter.ZeroCounters();
  for (size_t i = 0; i < schedule.steps.size(); ++i) {
    const int* op = std::get_if<int>(&schedule.steps[i].work);
    if (op != nullptr && kernels[i].functions.empty()) {
      emitter.Call(std::get<ExternOp>(program.operations[*op]), static_cast<int>(i));
    } else {
      emitter.Launch(kernels[i], memory.scratch[i]);
    }
    emitter.FreeAfter(static_cast<int>(i));
  }
  emitter.Outputs();
}

}  // namespace tensord::compiler
