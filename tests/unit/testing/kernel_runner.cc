// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/testing/kernel_runner.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include "base/check.h"
#include "tensord/kernel_abi.h"
#include "tests/unit/testing/kept_jit.h"

namespace tensord::testing {
namespace {

using compiler::BufferInfo;
using compiler::BufferKind;
using compiler::KernelSource;
using sym::Expr;

v1::Target TargetOf(v1::Isa isa) {
  v1::Target target;
  target.mutable_cpu()->set_isa(isa);
  return target;
}

// float32 bits without the low 16: bfloat16, rounded to nearest even as RoundTo has done already.
void StoreCell(const Cell& cell, v1::DType dtype, char* at) {
  const auto put = [at](auto value) { std::memcpy(at, &value, sizeof value); };
  switch (dtype) {
    case v1::DTYPE_BOOL:
      put(static_cast<uint8_t>(cell.integer != 0));
      break;
    case v1::DTYPE_UINT8:
      put(static_cast<uint8_t>(cell.integer));
      break;
    case v1::DTYPE_INT8:
      put(static_cast<int8_t>(cell.integer));
      break;
    case v1::DTYPE_INT16:
      put(static_cast<int16_t>(cell.integer));
      break;
    case v1::DTYPE_INT32:
      put(static_cast<int32_t>(cell.integer));
      break;
    case v1::DTYPE_INT64:
      put(cell.integer);
      break;
    case v1::DTYPE_FLOAT32:
      put(static_cast<float>(cell.real));
      break;
    case v1::DTYPE_FLOAT64:
      put(cell.real);
      break;
    case v1::DTYPE_BFLOAT16: {
      const float f = static_cast<float>(cell.real);
      uint32_t bits;
      std::memcpy(&bits, &f, sizeof bits);
      put(static_cast<uint16_t>(bits >> 16));
      break;
    }
    case v1::DTYPE_FLOAT16:
      put(static_cast<_Float16>(cell.real));
      break;
    default:
      TENSORD_CHECK(false, "a type that the runner lacks");
  }
}

template <class T>
T Read(const char* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

Cell LoadCell(v1::DType dtype, const char* at) {
  switch (dtype) {
    case v1::DTYPE_BOOL:
      return {.integer = Read<uint8_t>(at)};
    case v1::DTYPE_UINT8:
      return {.integer = Read<uint8_t>(at)};
    case v1::DTYPE_INT8:
      return {.integer = Read<int8_t>(at)};
    case v1::DTYPE_INT16:
      return {.integer = Read<int16_t>(at)};
    case v1::DTYPE_INT32:
      return {.integer = Read<int32_t>(at)};
    case v1::DTYPE_INT64:
      return {.integer = Read<int64_t>(at)};
    case v1::DTYPE_FLOAT32:
      return {.real = Read<float>(at)};
    case v1::DTYPE_FLOAT64:
      return {.real = Read<double>(at)};
    case v1::DTYPE_BFLOAT16: {
      const uint32_t bits = uint32_t{Read<uint16_t>(at)} << 16;
      float f;
      std::memcpy(&f, &bits, sizeof f);
      return {.real = f};
    }
    case v1::DTYPE_FLOAT16:
      return {.real = static_cast<double>(Read<_Float16>(at))};
    default:
      TENSORD_CHECK(false, "a type that the runner lacks");
  }
  return {};
}

int g_threads = 1;

void ParallelFor(int64_t begin, int64_t end, int64_t grain, TensordRangeFn fn, void* context) {
  const int64_t count = end - begin;
  const int64_t ranges = std::min<int64_t>(g_threads, (count + grain - 1) / grain);
  std::vector<std::thread> threads;
  for (int64_t r = 0; r < ranges; ++r) {
    threads.emplace_back(fn, begin + count * r / ranges, begin + count * (r + 1) / ranges, context);
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

KernelLibrary::KernelLibrary(v1::Isa isa) : isa_(isa) {
  char name[] = "/tmp/tensord-kernels-XXXXXX";
  folder_ = mkdtemp(name);
}

KernelLibrary::~KernelLibrary() { std::filesystem::remove_all(folder_); }

absl::Status KernelLibrary::Add(const std::vector<std::string>& sources) {
  v1::JitJob job;
  *job.mutable_target() = TargetOf(isa_);
  std::set<std::string> new_sources;
  for (const std::string& source : sources) {
    if (kernels_.count(source) != 0 || !new_sources.insert(source).second) continue;
    v1::KernelUnit* unit = job.add_units();
    unit->set_source(source);
    unit->add_functions("tensord_kernel");
  }
  if (job.units_size() == 0) return absl::OkStatus();
  jit::JitConfig config;
  config.work_folder = folder_;
  // Shards are given a core each.
  config.parallelism = std::getenv("GTEST_TOTAL_SHARDS") == nullptr ? 2 : 1;
  TENSORD_ASSIGN_OR_RETURN(const v1::JitResult result, KeptJit(job, config));
  if (result.failures_size() > 0) return absl::InternalError(result.failures(0).log());
  for (int i = 0; i < job.units_size(); ++i) {
    const std::string path =
        folder_ + "/k" + std::to_string(kernels_.size()) + "_" + std::to_string(i);
    std::ofstream(path, std::ios::binary) << result.binaries(i);
    void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) return absl::InternalError(dlerror());
    kernels_[job.units(i).source()] = dlsym(handle, "tensord_kernel");
  }
  return absl::OkStatus();
}

void* KernelLibrary::Find(const std::string& source) const { return kernels_.at(source); }

std::vector<HostTensor> RunKernels(const compiler::CompileState& state,
                                   const KernelLibrary& library, std::vector<HostTensor>& inputs,
                                   int threads, const InterpreterOptions& options) {
  g_threads = threads;
  TensordFault fault = {};
  const TensordKernelHost host{ParallelFor, threads, &fault};
  const auto launch = [&](const KernelSource& kernel, const KernelArguments& arguments) {
    std::vector<char> scratch(arguments.scratch_bytes * threads + 64);
    void* aligned = scratch.data();
    size_t space = scratch.size();
    std::align(64, 0, aligned, space);
    const TensordKernelArgs args{arguments.pointers.data(), arguments.integers.data(), aligned,
                                 &host};
    reinterpret_cast<TensordKernelFn>(library.Find(kernel.source))(&args);
  };
  std::vector<HostTensor> results = RunSchedule(state, launch, inputs, options);
  TENSORD_CHECK(fault.kind == TENSORD_FAULT_NONE, "data that a kernel checks is refused");
  return results;
}

std::vector<HostTensor> RunSchedule(const compiler::CompileState& state,
                                    const KernelLauncher& launch, std::vector<HostTensor>& inputs,
                                    const InterpreterOptions& options) {
  const compiler::Program& program = state.program;
  const auto value_of = [&](const Expr& e) {
    return sym::Evaluate(e, [&](const sym::Atom& atom) {
      auto it = options.symbols.find(atom.id);
      return it == options.symbols.end() ? atom.hint : it->second;
    });
  };
  constexpr int64_t kGuard = 64;  // bytes behind every buffer that no kernel may touch
  std::vector<std::vector<char>> memory(program.buffers.size());
  for (size_t i = 0; i < program.buffers.size(); ++i) {
    const BufferInfo& buffer = program.buffers[i];
    const int64_t item = compiler::ItemSize(buffer.dtype);
    const int64_t elements = value_of(compiler::StorageElements(buffer.sizes, buffer.strides));
    memory[i].assign(elements * item + kGuard, '\x5a');
    if (buffer.kind == BufferKind::kInput) {
      const HostTensor& input = inputs[buffer.number];
      for (int64_t e = 0; e < elements; ++e) {
        StoreCell(input.storage[input.offset + e], buffer.dtype, memory[i].data() + e * item);
      }
    } else if (buffer.kind == BufferKind::kConstant) {
      std::memcpy(memory[i].data(), options.constants[buffer.number].data(), elements * item);
    }
  }
  // Buffers of the workspace lie where the memory plan puts them, so that a wrong plan shows.
  std::vector<char> workspace(value_of(state.memory.workspace_bytes) + kGuard, '\x5a');
  const auto address_of = [&](int id) -> char* {
    const compiler::Place& place = state.memory.places[id];
    return place.kind == compiler::Place::kWorkspace ? workspace.data() + value_of(place.offset)
                                                     : memory[id].data();
  };
  for (size_t step = 0; step < state.schedule.steps.size(); ++step) {
    const KernelSource& kernel = state.kernels[step];
    TENSORD_CHECK(!kernel.source.empty(), "a library call in a kernel test");
    KernelArguments arguments{.scratch_bytes = value_of(kernel.launch.scratch_bytes),
                              .counters = value_of(kernel.launch.counters),
                              .value_of = value_of};
    for (int id : kernel.launch.buffers) arguments.pointers.push_back(address_of(id));
    for (const Expr& e : kernel.launch.integers) arguments.integers.push_back(value_of(e));
    launch(kernel, arguments);
  }
  for (int64_t k = 0; k < kGuard; ++k) {
    TENSORD_CHECK(workspace[workspace.size() - 1 - k] == '\x5a',
                  "a kernel wrote behind the workspace");
  }
  for (size_t i = 0; i < memory.size(); ++i) {
    for (int64_t k = 0; k < kGuard; ++k) {
      TENSORD_CHECK(memory[i][memory[i].size() - 1 - k] == '\x5a',
                    "a kernel wrote behind buffer " + std::to_string(i));
    }
    const BufferInfo& buffer = program.buffers[i];
    if (buffer.kind != BufferKind::kInput) continue;
    const int64_t item = compiler::ItemSize(buffer.dtype);
    for (int64_t e = 0; e * item + kGuard < static_cast<int64_t>(memory[i].size()); ++e) {
      inputs[buffer.number].storage[inputs[buffer.number].offset + e] =
          LoadCell(buffer.dtype, memory[i].data() + e * item);
    }
  }
  std::vector<HostTensor> outputs;
  for (const compiler::ProgramOutput& output : program.outputs) {
    HostTensor tensor;
    if (output.kind == compiler::ProgramOutput::kInteger) {
      tensor.dtype = v1::DTYPE_INT64;
      tensor.storage.push_back({.integer = value_of(output.integer)});
    } else if (output.kind == compiler::ProgramOutput::kTensor) {
      const bool as_stored = output.dtype == v1::DTYPE_UNSPECIFIED;
      const compiler::BufferView view =
          as_stored ? compiler::ViewOfParts(output.view) : output.view;
      tensor.dtype = as_stored ? program.buffers[view.buffer].dtype : output.dtype;
      const int64_t item = compiler::ItemSize(tensor.dtype);
      for (const Expr& size : view.sizes) tensor.sizes.push_back(value_of(size));
      for (const Expr& stride : view.strides) tensor.strides.push_back(value_of(stride));
      tensor.offset = value_of(view.offset);
      const std::vector<char>& bytes = memory[view.buffer];
      for (int64_t e = 0; e * item + kGuard < static_cast<int64_t>(bytes.size()); ++e) {
        tensor.storage.push_back(LoadCell(tensor.dtype, bytes.data() + e * item));
      }
    }
    outputs.push_back(std::move(tensor));
  }
  return outputs;
}

}  // namespace tensord::testing
