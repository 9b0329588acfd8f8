// SPDX-License-Identifier: Apache-2.0
#include "server/compile/worker_facts.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

#include "base/sha256.h"

namespace tensord::server {
namespace {

// A name is looked for along PATH, as the JIT's exec does; the name itself when it is nowhere.
std::string Locate(const std::string& program) {
  if (program.find('/') != std::string::npos) return program;
  const char* path = std::getenv("PATH");
  for (const std::string& folder :
       std::vector<std::string>(absl::StrSplit(path == nullptr ? "" : path, ':'))) {
    const std::string candidate = absl::StrCat(folder, "/", program);
    if (access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return program;
}

std::string Stamp(const std::string& path) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0) return absl::StrCat(path, " missing");
  return absl::StrCat(path, " ", info.st_ino, " ", info.st_size, " ", info.st_mtim.tv_sec, ".",
                      info.st_mtim.tv_nsec);
}

// A note is the digest of what it depends on, then the value.
std::string NoteName(const char* kind, const std::string& depends) {
  return absl::StrCat(kind, "-", ToHex(Sha256(depends)).substr(0, 32));
}

// More than there are kinds of GPUs and of CPUs' vectors.
constexpr size_t kMostToolchains = 64;

// A toolchain does not depend on sizes of caches and the like, of which clients may say any.
v1::Target WhatItIsOf(const v1::Target& target) {
  v1::Target part;
  if (target.has_cpu()) part.mutable_cpu()->set_isa(target.cpu().isa());
  if (target.has_cuda()) part.mutable_cuda()->set_sm(target.cuda().sm());
  return part;
}

}  // namespace

WorkerFacts::WorkerFacts(std::string worker_path, std::string cxx, std::string jit_settings,
                         WorkerPool* pool, store::Store* store)
    : worker_path_(std::move(worker_path)),
      cxx_(std::move(cxx)),
      jit_settings_(std::move(jit_settings)),
      pool_(pool),
      store_(store) {}

std::string WorkerFacts::Binaries() const {
  return absl::StrCat(Stamp(worker_path_), "\n", Stamp(Locate(cxx_)), "\n", jit_settings_);
}

void WorkerFacts::Refresh(const std::string& binaries) {
  if (binaries_ == binaries) return;
  binaries_ = binaries;
  compiler_build_.clear();
  toolchains_.clear();
  operators_.reset();
}

std::optional<WorkerFacts::Toolchain> WorkerFacts::CachedToolchain(const v1::Target& target) {
  const std::string binaries = Binaries();
  absl::MutexLock lock(&mutex_);
  Refresh(binaries);
  const auto found = toolchains_.find(WhatItIsOf(target).SerializeAsString());
  if (found == toolchains_.end() || compiler_build_.empty()) return std::nullopt;
  const Known& known = found->second;
  if (!known.file.empty() && Stamp(known.file) != known.stamp) return std::nullopt;
  return Toolchain{known.id, compiler_build_};
}

absl::StatusOr<std::string> WorkerFacts::CompilerBuild(const std::string& binaries) {
  const std::string note = NoteName("build", binaries);
  std::string digest = store_->GetNote(note);
  if (digest.size() != kSha256Bytes) {
    TENSORD_ASSIGN_OR_RETURN(const std::string binary, store::ReadFile(worker_path_));
    digest = Sha256(binary);
    store_->PutNote(note, digest);
  }
  return digest;
}

absl::StatusOr<WorkerFacts::Toolchain> WorkerFacts::GetToolchain(const v1::Target& whole) {
  const v1::Target target = WhatItIsOf(whole);
  absl::MutexLock asking(&asking_);
  if (auto cached = CachedToolchain(target)) return *std::move(cached);
  const std::string binaries = Binaries();
  TENSORD_ASSIGN_OR_RETURN(const std::string build, CompilerBuild(binaries));
  const std::string serialised = target.SerializeAsString();
  // Where the workers look for NVRTC depends on more than what is watched here, so a CUDA toolchain
  // is asked for by every daemon anew.
  const bool keep = target.has_cpu();
  const std::string note = NoteName("toolchain", binaries + serialised);
  Known known;
  if (keep) known.id = store_->GetNote(note);
  if (known.id.empty()) {
    v1::WorkerRequest request;
    *request.mutable_toolchain()->mutable_target() = target;
    TENSORD_ASSIGN_OR_RETURN(const v1::WorkerReply reply, pool_->Call(request));
    known.id = reply.toolchain().id();
    if (known.id.empty()) return absl::InternalError("the worker gave no toolchain id");
    if (keep) store_->PutNote(note, known.id);
    known.file = keep ? "" : reply.toolchain().file();  // the host compiler is in `binaries`
    known.stamp = Stamp(known.file);
  }
  absl::MutexLock lock(&mutex_);
  Refresh(binaries);
  compiler_build_ = build;
  if (toolchains_.size() >= kMostToolchains) toolchains_.clear();
  toolchains_[serialised] = known;
  return Toolchain{known.id, build};
}

absl::StatusOr<v1::ToolchainList> WorkerFacts::GetToolchainList() {
  if (pool_->Free(Cost::kCheap) == 0) return absl::UnavailableError("every worker is busy");
  v1::WorkerRequest request;
  request.mutable_toolchain_list();
  TENSORD_ASSIGN_OR_RETURN(v1::WorkerReply reply, pool_->Call(request));
  return std::move(*reply.mutable_toolchain_list());
}

std::optional<WorkerFacts::Operators> WorkerFacts::CachedOperators() {
  const std::string binaries = Binaries();
  absl::MutexLock lock(&mutex_);
  Refresh(binaries);
  return operators_;
}

absl::StatusOr<WorkerFacts::Operators> WorkerFacts::GetOperators() {
  absl::MutexLock asking(&asking_);
  if (auto cached = CachedOperators()) return *std::move(cached);
  const std::string binaries = Binaries();
  const std::string note = NoteName("operators", binaries);
  v1::OperatorsReply reply;
  if (!reply.ParseFromString(store_->GetNote(note)) || reply.operators().empty()) {
    v1::WorkerRequest request;
    request.mutable_operators();
    TENSORD_ASSIGN_OR_RETURN(v1::WorkerReply answer, pool_->Call(request));
    reply.Swap(answer.mutable_operators());
    store_->PutNote(note, reply.SerializeAsString());
  }
  Operators operators;
  Sha256Fields hash;
  for (const std::string& name : reply.operators()) {
    hash.Add(name);
    operators.names.push_back(name);
  }
  operators.table = ToHex(hash.Finish());
  absl::MutexLock lock(&mutex_);
  Refresh(binaries);
  operators_ = operators;
  return operators;
}

}  // namespace tensord::server
