// SPDX-License-Identifier: Apache-2.0
#include "runtime/load/load.h"

#include <cstring>

#include "base/version.h"
#include "runtime/cpu/cpu_device.h"
#include "runtime/cuda/cuda_device.h"
#include "runtime/load/lifetimes.h"
#include "runtime/operators/externs.h"
#include "runtime/program/layout.h"

namespace tensord::runtime {
namespace {

constexpr int kMaxDims = 64, kMaxSymbols = 4096;
constexpr uintptr_t kCudaAlignment = 16;

std::string Name(const char* what, int number) { return what + (" " + std::to_string(number)); }

TensordError Prefixed(const std::string& prefix, TensordError code) {
  return code == TENSORD_OK ? code : Fail(code, prefix + ": " + LastError());
}

// A CUDA program may have tensors in host memory, which only operators take.
TensordError AddLayout(const v1::TensorMeta& meta, int32_t program_device, ExprTable* exprs,
                       Layout* layout) {
  if (meta.dtype() == v1::DTYPE_UNSPECIFIED) return TENSORD_OK;
  const DTypeInfo* dtype = FindDType(meta.dtype());
  if (dtype == nullptr) return Fail(TENSORD_CORRUPT, "an unknown dtype");
  const int32_t device = TorchDevice(meta.device());
  if (device != kTorchCpu && device != program_device) {
    return Fail(TENSORD_CORRUPT, "a tensor is on another device than the program");
  }
  if (meta.sizes_size() != meta.strides_size() || meta.sizes_size() > kMaxDims) {
    return Fail(TENSORD_CORRUPT, "sizes and strides differ in number, or are too many");
  }
  layout->defined = true;
  layout->dtype = dtype->torch;
  layout->itemsize = dtype->bytes;
  layout->device = device;
  layout->ndim = meta.sizes_size();
  // The slots of sizes follow each other because nothing else adds slots in between; same for
  // strides.
  layout->sizes = static_cast<Slot>(exprs->values().size());
  layout->strides = layout->sizes + static_cast<Slot>(layout->ndim);
  Slot ignored = 0;
  for (const v1::SymExpr& size : meta.sizes()) TENSORD_TRY(exprs->Add(size, &ignored));
  for (const v1::SymExpr& stride : meta.strides()) TENSORD_TRY(exprs->Add(stride, &ignored));
  if (!meta.has_storage_offset()) {
    layout->offset = exprs->AddConstant(0);
    return TENSORD_OK;
  }
  return exprs->Add(meta.storage_offset(), &layout->offset);
}

TensordError BuildInputs(const v1::Artifact& artifact, TensordProgram* program) {
  for (int i = 0; i < artifact.inputs_size(); ++i) {
    const v1::Input& input = artifact.inputs(i);
    InputPlan plan;
    plan.name = input.name();
    plan.is_parameter = input.is_parameter();
    plan.is_donated = input.is_donated() && input.has_tensor();
    switch (input.kind_case()) {
      case v1::Input::kTensor:
        plan.is_tensor = true;
        TENSORD_TRY(Prefixed(Name("input", i), AddLayout(input.tensor(), program->device_type,
                                                         &program->exprs, &plan.layout)));
        if (!plan.layout.defined) return Fail(TENSORD_CORRUPT, Name("input", i) + " has no dtype");
        break;
      case v1::Input::kSize:
        TENSORD_TRY(Prefixed(Name("input", i), program->exprs.Add(input.size(), &plan.size)));
        break;
      default:
        return Fail(TENSORD_CORRUPT, Name("input", i) + " is neither tensor nor integer");
    }
    program->inputs.push_back(std::move(plan));
  }
  return TENSORD_OK;
}

TensordError BuildSymbols(const v1::Artifact& artifact, TensordProgram* program) {
  for (const v1::Symbol& symbol : artifact.symbols()) {
    const auto number = static_cast<uint32_t>(program->symbols.size());
    program->symbols.push_back({symbol.min(), symbol.max(), UINT32_MAX, -1, std::nullopt});
    if (!symbol.has_definition()) continue;
    Definition& definition = program->symbols.back().definition.emplace();
    TENSORD_TRY(Prefixed("symbol " + std::to_string(number),
                         Definition::Make(symbol.definition(), number, &definition)));
  }
  for (const v1::SymbolBinding& binding : artifact.bindings()) {
    if (binding.symbol() >= program->symbols.size() || binding.input() >= program->inputs.size()) {
      return Fail(TENSORD_CORRUPT, "a symbol's binding is out of range");
    }
    const InputPlan& input = program->inputs[binding.input()];
    const bool fits =
        binding.has_dim()
            ? input.is_tensor && binding.dim() < static_cast<uint32_t>(input.layout.ndim)
            : !input.is_tensor;
    if (!fits) return Fail(TENSORD_CORRUPT, "a symbol is bound to a dimension that is not there");
    SymbolPlan& symbol = program->symbols[binding.symbol()];
    symbol.input = binding.input();
    symbol.dim = binding.has_dim() ? static_cast<int32_t>(binding.dim()) : -1;
  }
  for (size_t i = 0; i < program->symbols.size(); ++i) {
    if (program->symbols[i].input == UINT32_MAX && !program->symbols[i].definition) {
      return Fail(TENSORD_CORRUPT, "symbol " + std::to_string(i) + " is bound to no input");
    }
  }
  return TENSORD_OK;
}

TensordError BuildConstants(const v1::Artifact& artifact, TensordProgram* program) {
  for (int i = 0; i < artifact.constants_size(); ++i) {
    const v1::Constant& constant = artifact.constants(i);
    // A table of its own without symbols refuses what is not static.
    ExprTable table;
    Layout layout;
    const int32_t device = program->device_type;
    TENSORD_TRY(Prefixed(Name("constant", i), AddLayout(constant.meta(), device, &table, &layout)));
    if (!layout.defined) return Fail(TENSORD_CORRUPT, Name("constant", i) + " has no dtype");
    Place place;
    TENSORD_TRY(Prefixed(Name("constant", i), ComputePlace(layout, table.values().data(), &place)));
    if (static_cast<uint64_t>(place.extent_bytes) != constant.data().size()) {
      return Fail(TENSORD_CORRUPT, Name("constant", i) + " has " +
                                       std::to_string(constant.data().size()) + " bytes, not " +
                                       std::to_string(place.extent_bytes));
    }
    TENSORD_TRY(AddLayout(constant.meta(), device, &program->exprs, &layout));
    program->constant_layouts.push_back(layout);
  }
  return TENSORD_OK;
}

TensordError BuildBuffer(const v1::Buffer& proto, uint32_t count, TensordProgram* program,
                         BufferPlan* buffer) {
  TENSORD_TRY(AddLayout(proto.meta(), program->device_type, &program->exprs, &buffer->layout));
  const Layout* same_as = nullptr;
  switch (proto.storage_case()) {
    case v1::Buffer::kInput:
      buffer->storage = Storage::kInput;
      buffer->source = proto.input();
      if (proto.input() >= program->inputs.size() || !program->inputs[proto.input()].is_tensor) {
        return Fail(TENSORD_CORRUPT, "its input is out of range or no tensor");
      }
      same_as = &program->inputs[proto.input()].layout;
      break;
    case v1::Buffer::kConstant:
      buffer->storage = Storage::kConstant;
      buffer->source = proto.constant();
      if (proto.constant() >= program->constant_layouts.size()) {
        return Fail(TENSORD_CORRUPT, "its constant is out of range");
      }
      same_as = &program->constant_layouts[proto.constant()];
      break;
    case v1::Buffer::kWorkspace:
      buffer->storage = Storage::kWorkspace;
      buffer->standalone = proto.standalone();
      if (proto.has_donor()) {
        if (!buffer->standalone || proto.donor() >= program->inputs.size() ||
            !program->inputs[proto.donor()].is_donated) {
          return Fail(TENSORD_CORRUPT, "it has the memory of no input that is donated");
        }
        buffer->donor = proto.donor();
      }
      program->uses_workspace = true;
      TENSORD_TRY(program->exprs.Add(proto.workspace(), &buffer->source));
      if (buffer->layout.device != program->device_type) {
        return Fail(TENSORD_CORRUPT, "it lies in the workspace of another device");
      }
      break;
    case v1::Buffer::kOwned:
      buffer->storage = Storage::kOwned;
      break;
    case v1::Buffer::kExternResult:
      buffer->storage = Storage::kExtern;
      return TENSORD_OK;  // the one kind that may be undefined
    case v1::Buffer::kViewOf:
      buffer->storage = Storage::kView;
      buffer->source = proto.view_of();
      if (proto.view_of() >= count) return Fail(TENSORD_CORRUPT, "it views a buffer out of range");
      break;
    case v1::Buffer::STORAGE_NOT_SET:
      return Fail(TENSORD_CORRUPT, "it has no storage");
  }
  if (!buffer->layout.defined) return Fail(TENSORD_CORRUPT, "it has no dtype");
  if (same_as != nullptr &&
      (same_as->dtype != buffer->layout.dtype || same_as->ndim != buffer->layout.ndim)) {
    return Fail(TENSORD_CORRUPT, "it differs from its input or constant in dtype or dimensions");
  }
  return TENSORD_OK;
}

TensordError FindRoots(TensordProgram* program) {
  const auto count = static_cast<uint32_t>(program->buffers.size());
  for (uint32_t i = 0; i < count; ++i) {
    uint32_t root = i;
    for (uint32_t length = 0; program->buffers[root].storage == Storage::kView; ++length) {
      root = program->buffers[root].source;
      if (length > count) {
        return Fail(TENSORD_CORRUPT, "buffer " + std::to_string(i) + " views itself");
      }
    }
    program->buffers[i].root = root;
    if (root == i) continue;
    if (!program->buffers[root].layout.defined) {
      return Fail(TENSORD_CORRUPT, "buffer " + std::to_string(i) + " views an undefined tensor");
    }
    program->buffers[root].views.push_back(i);
  }
  return TENSORD_OK;
}

TensordError MakeConstant(const v1::Constant& proto, const Layout& layout,
                          const TensordProgram& program, Handle* handle) {
  const Torch& torch = *program.torch;
  const int64_t* values = program.exprs.values().data();
  if (torch.empty_strided(layout.ndim, values + layout.sizes, values + layout.strides, layout.dtype,
                          kTorchCpu, 0, handle) != 0) {
    return Fail(TENSORD_OPERATOR, "cannot allocate a constant: " + TorchMessage(torch));
  }
  void* data = nullptr;
  if (torch.get_data_ptr(*handle, &data) != 0) {
    return Fail(TENSORD_OPERATOR, "cannot reach a constant: " + TorchMessage(torch));
  }
  if (!proto.data().empty()) std::memcpy(data, proto.data().data(), proto.data().size());
  return TENSORD_OK;
}

// CUDA programs: what kernels read is loaded 16 bytes at a time, and a workspace goes back to torch
// when the call ends, whose allocator gives it out again in the order of the stream.
void SetDevice(bool cuda, TensordProgram* program) {
  program->device = cuda ? NewCudaDevice() : NewCpuDevice();
  program->device_type = cuda ? kTorchCuda : kTorchCpu;
  program->reuses_workspace = !cuda;
  program->input_alignment = cuda ? kCudaAlignment : 1;
}

}  // namespace

TensordError BuildPlan(const v1::Artifact& artifact, TensordProgram* program) {
  if (artifact.format_version() != kArtifactFormat) {
    return Fail(TENSORD_CORRUPT, "the artifact has format " +
                                     std::to_string(artifact.format_version()) +
                                     ", this runtime reads " + std::to_string(kArtifactFormat));
  }
  SetDevice(artifact.target().has_cuda(), program);
  if (artifact.symbols_size() > kMaxSymbols) return Fail(TENSORD_CORRUPT, "too many symbols");
  program->exprs = ExprTable(static_cast<uint32_t>(artifact.symbols_size()));
  TENSORD_TRY(BuildInputs(artifact, program));
  TENSORD_TRY(BuildSymbols(artifact, program));
  TENSORD_TRY(BuildConstants(artifact, program));
  program->buffers.resize(static_cast<size_t>(artifact.buffers_size()));
  const auto count = static_cast<uint32_t>(artifact.buffers_size());
  for (uint32_t i = 0; i < count; ++i) {
    TENSORD_TRY(Prefixed(
        "buffer " + std::to_string(i),
        BuildBuffer(artifact.buffers(static_cast<int>(i)), count, program, &program->buffers[i])));
    if (program->buffers[i].standalone) program->standalone.push_back(i);
  }
  TENSORD_TRY(FindRoots(program));
  if (artifact.has_workspace_bytes()) {
    TENSORD_TRY(program->exprs.Add(artifact.workspace_bytes(), &program->workspace_bytes));
  } else {
    program->workspace_bytes = program->exprs.AddConstant(0);
  }
  if (artifact.has_standalone_bytes()) {
    TENSORD_TRY(program->exprs.Add(artifact.standalone_bytes(), &program->standalone_bytes));
  } else {
    program->standalone_bytes = program->exprs.AddConstant(0);
  }
  TENSORD_TRY(BuildSteps(artifact, program));
  AddReleases(program);
  if (program->exprs.is_static()) {
    program->places.resize(program->buffers.size());
    TENSORD_TRY(ComputePlaces(*program, program->exprs.values().data(), program->places.data()));
  }
  return TENSORD_OK;
}

TensordError Link(const v1::Artifact& artifact, const std::string& blob_folder,
                  TensordProgram* program) {
  TENSORD_TRY(GetTorch(&program->torch));
  TENSORD_TRY(program->device->Link(artifact, blob_folder, *program));
  for (const auto& call : program->calls) LinkCall(*program->torch, call.get());
  for (int i = 0; i < artifact.constants_size(); ++i) {
    Handle handle = nullptr;
    const TensordError code =
        MakeConstant(artifact.constants(i), program->constant_layouts[static_cast<size_t>(i)],
                     *program, &handle);
    if (handle != nullptr) program->constants.push_back(handle);
    TENSORD_TRY(code);
  }
  return TENSORD_OK;
}

}  // namespace tensord::runtime
