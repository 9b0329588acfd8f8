// SPDX-License-Identifier: Apache-2.0
#include "compiler/jit/nvrtc/library.h"

#include <absl/base/thread_annotations.h>
#include <absl/cleanup/cleanup.h>
#include <absl/strings/str_cat.h>
#include <absl/synchronization/mutex.h>
#include <dlfcn.h>

#include <map>

#include "compiler/jit/nvrtc/find.h"

namespace tensord::jit {

// As nvrtc.h declares them; the results are its nvrtcResult.
struct NvrtcApi {
  using Program = struct _nvrtcProgram*;
  const char* (*GetErrorString)(int);
  int (*Version)(int*, int*);
  int (*GetNumSupportedArchs)(int*);
  int (*GetSupportedArchs)(int*);
  int (*CreateProgram)(Program*, const char* source, const char* name, int headers,
                       const char* const* contents, const char* const* paths);
  int (*DestroyProgram)(Program*);
  int (*CompileProgram)(Program, int count, const char* const* options);
  int (*GetProgramLogSize)(Program, size_t*);
  int (*GetProgramLog)(Program, char*);
  int (*GetCUBINSize)(Program, size_t*);
  int (*GetCUBIN)(Program, char*);
  int (*GetPTXSize)(Program, size_t*);
  int (*GetPTX)(Program, char*);
};

namespace {

constexpr int kSuccess = 0;
constexpr int kCompilation = 6;
constexpr int kBuiltins = 7;

constexpr char kWhatToDo[] =
    "install a CUDA toolkit or `pip install nvidia-cuda-nvrtc`, and set TENSORD_NVRTC to the "
    "library or its folder";

absl::Status Broken(const std::string& path, const std::string& why) {
  return absl::FailedPreconditionError(
      absl::StrCat("NVRTC at ", path, " cannot be used (", why, "): ", kWhatToDo));
}

absl::StatusOr<NvrtcApi> LoadApi(void* library, const std::string& path) {
  NvrtcApi api;
#define TENSORD_ENTRY(name) \
  { "nvrtc" #name, reinterpret_cast<void**>(&api.name) }
  const struct {
    const char* name;
    void** function;
  } entries[] = {
      TENSORD_ENTRY(GetErrorString),
      TENSORD_ENTRY(Version),
      TENSORD_ENTRY(CreateProgram),
      TENSORD_ENTRY(DestroyProgram),
      TENSORD_ENTRY(CompileProgram),
      TENSORD_ENTRY(GetProgramLogSize),
      TENSORD_ENTRY(GetProgramLog),
      TENSORD_ENTRY(GetPTXSize),
      TENSORD_ENTRY(GetPTX),
      TENSORD_ENTRY(GetNumSupportedArchs),
      TENSORD_ENTRY(GetSupportedArchs),
      TENSORD_ENTRY(GetCUBINSize),
      TENSORD_ENTRY(GetCUBIN),
  };
#undef TENSORD_ENTRY
  for (const auto& entry : entries) {
    *entry.function = dlsym(library, entry.name);
    if (!*entry.function) return Broken(path, absl::StrCat("it has no ", entry.name));
  }
  return api;
}

absl::Status CheckVersion(const NvrtcVersion& version, const std::string& path) {
  if (version >= kLeastNvrtc) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "NVRTC ", version.major, ".", version.minor, " at ", path, " is too old: CUDA kernels need ",
      kLeastNvrtc.major, ".", kLeastNvrtc.minor, " or later; ", kWhatToDo));
}

// NVRTC tells sizes with the terminating zero, which cubins have not.
std::string Text(int (*size_of)(NvrtcApi::Program, size_t*), int (*get)(NvrtcApi::Program, char*),
                 NvrtcApi::Program program) {
  size_t size = 0;
  if (size_of(program, &size) != kSuccess || size == 0) return "";
  std::string text(size, '\0');
  return get(program, text.data()) == kSuccess ? text : "";
}

std::string WithoutZero(std::string text) {
  while (!text.empty() && text.back() == '\0') text.pop_back();
  return text;
}

}  // namespace

absl::StatusOr<std::unique_ptr<NvrtcLibrary>> NvrtcLibrary::Open(const std::string& candidate) {
  void* handle = dlopen(candidate.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) return Broken(candidate, dlerror());
  absl::Cleanup close = [handle] { dlclose(handle); };
  TENSORD_ASSIGN_OR_RETURN(const NvrtcApi api, LoadApi(handle, candidate));
  std::unique_ptr<NvrtcLibrary> library(new NvrtcLibrary);
  Dl_info where;
  library->path_ = dladdr(reinterpret_cast<void*>(api.Version), &where) != 0 && where.dli_fname
                       ? where.dli_fname
                       : candidate;
  NvrtcVersion& version = library->version_;
  int count = 0;
  if (api.Version(&version.major, &version.minor) != kSuccess)
    return Broken(library->path_, "nvrtcVersion fails");
  TENSORD_RETURN_IF_ERROR(CheckVersion(version, library->path_));
  if (api.GetNumSupportedArchs(&count) != kSuccess || count <= 0)
    return Broken(library->path_, "it supports no architecture");
  library->architectures_.resize(count);
  if (api.GetSupportedArchs(library->architectures_.data()) != kSuccess)
    return Broken(library->path_, "nvrtcGetSupportedArchs fails");
  // NVRTC opens its builtins by their plain name at the first compile, and fails when they lie
  // where the loader does not look. One that is loaded already is found.
  const std::string builtins = NvrtcBuiltins(library->path_, version.major, version.minor);
  if (!builtins.empty() && !dlopen(builtins.c_str(), RTLD_NOW | RTLD_GLOBAL))
    return Broken(builtins, dlerror());
  library->api_ = std::make_shared<const NvrtcApi>(api);
  std::move(close).Cancel();
  return library;
}

absl::StatusOr<const NvrtcLibrary*> NvrtcLibrary::Find(const std::string& configured) {
  struct Opened {
    absl::Mutex mutex;
    std::map<std::string, std::unique_ptr<NvrtcLibrary>> libraries ABSL_GUARDED_BY(mutex);
  };
  static Opened& opened = *new Opened;
  absl::MutexLock lock(&opened.mutex);
  std::unique_ptr<NvrtcLibrary>& library = opened.libraries[configured];
  if (library) return library.get();
  absl::Status why;
  for (const std::string& candidate : NvrtcCandidates(configured)) {
    absl::StatusOr<std::unique_ptr<NvrtcLibrary>> found = Open(candidate);
    if (found.ok()) {
      library = *std::move(found);
      return library.get();
    }
    // A plain name that the system's loader does not know is no news; a file that is there is.
    if (candidate.find('/') != std::string::npos) why.Update(found.status());
  }
  if (!why.ok()) return why;
  return absl::FailedPreconditionError(
      configured.empty() ? absl::StrCat("no NVRTC (libnvrtc.so.13 or .12): ", kWhatToDo)
                         : absl::StrCat("no NVRTC at '", configured, "': ", kWhatToDo));
}

absl::StatusOr<NvrtcLibrary::Result> NvrtcLibrary::Compile(
    const std::string& source, std::span<const kernels::EmbeddedFile> headers,
    const std::vector<std::string>& options, Output output) const {
  std::vector<std::string> texts;  // zero-terminated, which the views need not be
  for (const kernels::EmbeddedFile& header : headers) {
    texts.emplace_back(header.contents);
    texts.emplace_back(header.path);
  }
  std::vector<const char*> contents, paths, words;
  for (size_t i = 0; i < texts.size(); i += 2) {
    contents.push_back(texts[i].c_str());
    paths.push_back(texts[i + 1].c_str());
  }
  for (const std::string& option : options) words.push_back(option.c_str());

  NvrtcApi::Program program = nullptr;
  int code = api_->CreateProgram(&program, source.c_str(), "kernel.cu", int(paths.size()),
                                 contents.data(), paths.data());
  if (code != kSuccess) return Broken(path_, api_->GetErrorString(code));
  absl::Cleanup destroy = [&] { api_->DestroyProgram(&program); };
  code = api_->CompileProgram(program, int(words.size()), words.data());
  Result result;
  result.ok = code == kSuccess;
  result.error = api_->GetErrorString(code);
  result.log = WithoutZero(Text(api_->GetProgramLogSize, api_->GetProgramLog, program));
  if (code != kSuccess && code != kCompilation)
    return Broken(path_,
                  code == kBuiltins
                      ? absl::StrCat(result.error, ": libnvrtc-builtins is missing beside it")
                      : absl::StrCat(result.error, "\n", result.log));
  if (!result.ok) return result;
  result.binary = output == Output::kCubin
                      ? Text(api_->GetCUBINSize, api_->GetCUBIN, program)
                      : WithoutZero(Text(api_->GetPTXSize, api_->GetPTX, program));
  if (result.binary.empty()) return Broken(path_, "it gives no binary");
  return result;
}

}  // namespace tensord::jit
