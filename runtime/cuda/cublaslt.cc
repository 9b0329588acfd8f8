// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/cublaslt.h"

#include <dlfcn.h>

#include <cstring>
#include <memory>

#include "runtime/base/loaded_library.h"
#include "runtime/base/switch.h"

namespace tensord::runtime {
namespace {

constexpr size_t kOldest = 120000;

struct LtSymbol {
  size_t offset;  // in CublasLt
  const char* name;
};

#define TENSORD_LT_SYMBOL(member, name) {offsetof(CublasLt, member), name}
constexpr LtSymbol kLtSymbols[] = {
    TENSORD_LT_SYMBOL(get_version, "cublasLtGetVersion"),
    TENSORD_LT_SYMBOL(create, "cublasLtCreate"),
    TENSORD_LT_SYMBOL(create_operation, "cublasLtMatmulDescCreate"),
    TENSORD_LT_SYMBOL(set_operation, "cublasLtMatmulDescSetAttribute"),
    TENSORD_LT_SYMBOL(delete_operation, "cublasLtMatmulDescDestroy"),
    TENSORD_LT_SYMBOL(create_layout, "cublasLtMatrixLayoutCreate"),
    TENSORD_LT_SYMBOL(set_layout, "cublasLtMatrixLayoutSetAttribute"),
    TENSORD_LT_SYMBOL(delete_layout, "cublasLtMatrixLayoutDestroy"),
    TENSORD_LT_SYMBOL(create_preference, "cublasLtMatmulPreferenceCreate"),
    TENSORD_LT_SYMBOL(set_preference, "cublasLtMatmulPreferenceSetAttribute"),
    TENSORD_LT_SYMBOL(delete_preference, "cublasLtMatmulPreferenceDestroy"),
    TENSORD_LT_SYMBOL(find_algorithms, "cublasLtMatmulAlgoGetHeuristic"),
    TENSORD_LT_SYMBOL(get_algorithm, "cublasLtMatmulAlgoConfigGetAttribute"),
    TENSORD_LT_SYMBOL(multiply, "cublasLtMatmul"),
};
#undef TENSORD_LT_SYMBOL

const CublasLt* Open() {
  void* const library = FindLoadedLibrary("libcublasLt.so");
  auto table = std::make_unique<CublasLt>();
  auto* base = reinterpret_cast<char*>(table.get());
  for (const LtSymbol& symbol : kLtSymbols) {
    void* address = dlsym(library, symbol.name);
    if (address == nullptr) return nullptr;
    std::memcpy(base + symbol.offset, &address, sizeof address);
  }
  return table->get_version() >= kOldest ? table.release() : nullptr;
}

}  // namespace

const CublasLt* GetCublasLt() {
  if (!IsSwitchedOn("TENSORD_CUBLASLT")) return nullptr;
  // A program is loaded after torch, and torch with CUDA loads the library with itself.
  static const CublasLt* const table = Open();
  return table;
}

}  // namespace tensord::runtime
