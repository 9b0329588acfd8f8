// SPDX-License-Identifier: Apache-2.0
// A tiny NVRTC for tests of the CUDA prelude, opened at run time. To be replaced by compiler/jit.
#ifndef TENSORD_TESTS_UNIT_TESTING_NVRTC_COMPILER_H_
#define TENSORD_TESTS_UNIT_TESTING_NVRTC_COMPILER_H_

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/embedded.h"

namespace nvrtc_compiler {

struct Compiled {
  std::string error;  // empty: it compiled
  std::string log, ptx;
};

class Compiler {
 public:
  // From TENSORD_NVRTC: the library's path or its folder.
  Compiler() {
    namespace fs = std::filesystem;
    const char* const place = std::getenv("TENSORD_NVRTC");
    if (place == nullptr) {
      error_ = "set TENSORD_NVRTC to NVRTC's library or its folder";
      return;
    }
    const fs::path folder =
        fs::is_directory(place) ? fs::path(place) : fs::path(place).parent_path();
    std::string library;
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(folder, ignored)) {
      const std::string name = entry.path().filename();
      // Without the builtins loaded first, compiling fails.
      if (name.starts_with("libnvrtc-builtins.so.") && name.find(".alt.") == std::string::npos)
        dlopen(entry.path().c_str(), RTLD_NOW | RTLD_GLOBAL);
      if (name.starts_with("libnvrtc.so.") && name.find(".alt.") == std::string::npos)
        library = entry.path();
    }
    handle_ = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library.empty() || handle_ == nullptr) error_ = "no NVRTC in " + folder.string();
  }

  const std::string& error() const { return error_; }

  // headers: beyond the prelude's, by the names that `source` includes.
  Compiled Compile(const std::string& source, const std::string& architecture,
                   const std::vector<std::string>& more_options,
                   const std::map<std::string, std::string>& headers = {}) const {
    std::vector<const char*> names, texts, options;
    for (const auto& file : tensord::kernels::CudaPrelude()) {  // ends with 0: a string literal
      names.push_back(file.path.data());
      texts.push_back(file.contents.data());
    }
    for (const auto& [name, text] : headers) {
      names.push_back(name.c_str());
      texts.push_back(text.c_str());
    }
    const std::string target = "--gpu-architecture=" + architecture;
    options = {"--std=c++20", "-default-device", "--ptxas-options=-v", target.c_str()};
    for (const std::string& option : more_options) options.push_back(option.c_str());
    Compiled result;
    void* program = nullptr;
    if (Call<int(void**, const char*, const char*, int, const char* const*, const char* const*)>(
            "nvrtcCreateProgram")(&program, source.c_str(), "program.cu", int(names.size()),
                                  texts.data(), names.data()) != 0) {
      result.error = "nvrtcCreateProgram";
      return result;
    }
    const int code = Call<int(void*, int, const char* const*)>("nvrtcCompileProgram")(
        program, int(options.size()), options.data());
    result.log = Text(program, "nvrtcGetProgramLogSize", "nvrtcGetProgramLog");
    if (code == 0)
      result.ptx = Text(program, "nvrtcGetPTXSize", "nvrtcGetPTX");
    else
      result.error = "error " + std::to_string(code) + "\n" + result.log;
    Call<int(void**)>("nvrtcDestroyProgram")(&program);
    return result;
  }

 private:
  template <class Signature>
  Signature* Call(const char* name) const {
    return reinterpret_cast<Signature*>(dlsym(handle_, name));
  }
  std::string Text(void* program, const char* size_name, const char* text_name) const {
    size_t size = 0;
    Call<int(void*, size_t*)>(size_name)(program, &size);
    std::string text(size, '\0');
    Call<int(void*, char*)>(text_name)(program, text.data());
    return text;
  }

  void* handle_ = nullptr;
  std::string error_;
};

}  // namespace nvrtc_compiler

#endif  // TENSORD_TESTS_UNIT_TESTING_NVRTC_COMPILER_H_
