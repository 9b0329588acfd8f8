// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/testing/cuda_kernel_runner.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_replace.h>
#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/check.h"

namespace tensord::testing {
namespace {

using compiler::KernelFunction;
using compiler::KernelSource;

// The words of CUDA that cuda_on_host.h leaves out. A block's shared memory is static, for blocks
// run one after the other.
constexpr const char* kHead = R"(#include "tests/unit/testing/cuda_on_host.h"

#define __global__
#define __grid_constant__
#define __launch_bounds__(...)
#define __shared__ static
#define __align__(n) __attribute__((aligned(n)))
static thread_local HostDim blockIdx, gridDim;
alignas(16) static char shared_rows[256 << 10];

// False when the kernel wrote behind its `shared` bytes.
template <class Args>
static bool Run(void (*kernel)(Args), const void* words, int blocks, int threads, int shared) {
  Args args;
  std::memcpy(&args, words, sizeof args);
  std::memset(shared_rows, 0xff, sizeof shared_rows);  // not a number
  cuda_on_host::RunBlock(threads, [&] {
    gridDim.x = unsigned(blocks);
    for (int b = 0; b < blocks; ++b) {
      blockIdx.x = unsigned(b);
      kernel(args);
      __syncthreads();
    }
  });
  return std::all_of(shared_rows + shared, shared_rows + sizeof shared_rows,
                     [](char c) { return c == '\xff'; });
}
)";

std::string EntryName(size_t kernel, size_t function) {
  return absl::StrCat("run_", kernel, "_", function);
}

std::string HostText(const KernelSource& kernel, size_t number) {
  std::string text =
      absl::StrCat("\nnamespace k", number, " {\n",
                   absl::StrReplaceAll(kernel.source,
                                       {{"#include \"tensord/cuda.cuh\"", ""},
                                        {"#include \"tensord/cuda/lift_special.cuh\"", ""},
                                        {"extern __shared__ __align__(16) char shared_rows[];", ""},
                                        {"extern \"C\" __global__", "static __global__"}}));
  for (size_t f = 0; f < kernel.functions.size(); ++f) {
    absl::StrAppend(&text, "extern \"C\" bool ", EntryName(number, f),
                    "(const void* words, int blocks, int threads, int shared) {\n  return Run(",
                    kernel.functions[f].name, ", words, blocks, threads, shared);\n}\n");
  }
  return text + "}\n";
}

}  // namespace

CudaKernelLibrary::CudaKernelLibrary() {
  char name[] = "/tmp/tensord-kernels-XXXXXX";
  folder_ = mkdtemp(name);
}

CudaKernelLibrary::~CudaKernelLibrary() { std::filesystem::remove_all(folder_); }

absl::Status CudaKernelLibrary::Build(const std::vector<const KernelSource*>& kernels) {
  std::map<std::string, size_t> numbers;
  const std::string library = folder_ + "/kernels.so";
  std::ofstream out(folder_ + "/kernels.cc");
  out << kHead;
  for (const KernelSource* kernel : kernels) {
    if (!numbers.emplace(kernel->source, numbers.size()).second) continue;
    out << HostText(*kernel, numbers.size() - 1);
  }
  out.close();
  const std::string log = folder_ + "/log";
  // Less than -O2 shows the same numbers in half the time. Accesses that are not aligned, on which
  // a GPU faults, end the test. Apart from linking, for ccache, and by a name that is always the
  // same.
  const std::string command =
      absl::StrCat("cd ", folder_,
                   " && { " TENSORD_TEST_COMPILE
                   " -std=c++20 -O1 -w -fPIC -pthread -ffp-contract=off "
                   "-fsanitize=alignment -fsanitize-undefined-trap-on-error "
                   "-fwrapv -fno-strict-aliasing -I" TENSORD_SOURCE_DIR " -I" TENSORD_CUDA_INCLUDE
                   " -c kernels.cc -o kernels.o && " TENSORD_TEST_LINK
                   " -shared -pthread kernels.o -o kernels.so; } 2>",
                   log);
  if (std::system(command.c_str()) != 0) {
    std::ostringstream text;
    text << std::ifstream(log).rdbuf();
    return absl::InternalError(text.str());
  }
  void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return absl::InternalError(dlerror());
  for (const KernelSource* kernel : kernels) {
    std::vector<Entry>& entries = entries_[kernel->source];
    for (size_t f = entries.size(); f < kernel->functions.size(); ++f) {
      const std::string name = EntryName(numbers.at(kernel->source), f);
      entries.push_back(reinterpret_cast<Entry>(dlsym(handle, name.c_str())));
    }
  }
  return absl::OkStatus();
}

void CudaKernelLibrary::Launch(const KernelSource& kernel, const KernelArguments& arguments) const {
  std::vector<char> scratch(arguments.scratch_bytes + 64);
  void* aligned = scratch.data();
  size_t space = scratch.size();
  std::align(64, 0, aligned, space);
  std::vector<int64_t> words;
  for (void* pointer : arguments.pointers) words.push_back(reinterpret_cast<int64_t>(pointer));
  if (arguments.scratch_bytes > 0) words.push_back(reinterpret_cast<int64_t>(aligned));
  std::vector<unsigned> counters(arguments.counters, 0);
  if (arguments.counters > 0) words.push_back(reinterpret_cast<int64_t>(counters.data()));
  words.insert(words.end(), arguments.integers.begin(), arguments.integers.end());
  const std::vector<Entry>& entries = entries_.at(kernel.source);
  for (size_t f = 0; f < kernel.functions.size(); ++f) {
    const KernelFunction& function = kernel.functions[f];
    TENSORD_CHECK(function.cuda.has_value(), "a kernel for another target");
    const int blocks = static_cast<int>(arguments.value_of(function.cuda->grid));
    if (blocks <= 0) continue;
    const int shared = function.cuda->shared_bytes;
    TENSORD_CHECK(entries[f](words.data(), blocks, function.cuda->block, shared),
                  "a kernel writes behind its shared memory");
  }
  for (const unsigned counter : counters) TENSORD_CHECK(counter == 0, "a counter is left behind");
}

}  // namespace tensord::testing
