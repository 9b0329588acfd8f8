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
#include "tests/unit/testing/kept_results.h"

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
    if (library.empty() || handle_ == nullptr) {
      error_ = "no NVRTC in " + folder.string();
      return;
    }
    int major = 0, minor = 0;
    Call<int(int*, int*)>("nvrtcVersion")(&major, &minor);
    version_ = std::to_string(major) + "." + std::to_string(minor) + " of " +
               std::to_string(fs::file_size(library)) + " bytes";
  }

  const std::string& error() const { return error_; }

  // headers: beyond the prelude's, by the names that `source` includes. What compiled in an earlier
  // run is not compiled again (kept_results.h).
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
    const tensord::testing::KeptResults kept("nvrtc");
    const std::string digest = Digest(source, options, names, texts);
    if (const auto text = kept.Find(digest)) return Unpack(*text);
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
    if (code == 0) {
      result.ptx = Text(program, "nvrtcGetPTXSize", "nvrtcGetPTX");
      kept.Keep(digest, Pack(result));
    } else {
      result.error = "error " + std::to_string(code) + "\n" + result.log;
    }
    Call<int(void**)>("nvrtcDestroyProgram")(&program);
    return result;
  }

 private:
  using Strings = std::vector<const char*>;

  std::string Digest(const std::string& source, const Strings& options, const Strings& names,
                     const Strings& texts) const {
    tensord::Sha256Fields fields;
    fields.Add(version_).Add(source);
    for (const Strings* strings : {&options, &names, &texts}) {
      fields.Add(std::to_string(strings->size()));
      for (const char* string : *strings) fields.Add(string);
    }
    return fields.Finish();
  }
  // The length of the log, a line end, log and PTX.
  static std::string Pack(const Compiled& compiled) {
    return std::to_string(compiled.log.size()) + "\n" + compiled.log + compiled.ptx;
  }
  static Compiled Unpack(const std::string& text) {
    const size_t begin = text.find('\n') + 1, size = std::stoul(text);
    return {.error = "", .log = text.substr(begin, size), .ptx = text.substr(begin + size)};
  }

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
  std::string error_, version_;
};

}  // namespace nvrtc_compiler

#endif  // TENSORD_TESTS_UNIT_TESTING_NVRTC_COMPILER_H_
