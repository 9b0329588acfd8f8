// SPDX-License-Identifier: Apache-2.0
#include "server/ahead/targets.h"

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <absl/strings/str_replace.h>
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <filesystem>

#include "base/sha256.h"
#include "server/program/keys.h"
#include "server/store/blobs.h"

namespace tensord::server {
namespace {

constexpr size_t kShownDigits = 8;

// Keeps the first error.
class FirstError : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, google::protobuf::io::ColumnNumber /*column*/,
                const std::string& message) override {
    if (text.empty()) text = absl::StrCat("line ", line + 1, ": ", message);
  }
  std::string text;
};

// "sm_90", "avx512".
std::string Architecture(const v1::Target& target) {
  const std::string arch = ArchOf(target);  // "cuda sm90"
  return absl::StrReplaceAll(arch.substr(arch.find(' ') + 1), {{"sm", "sm_"}});
}

std::string Kib(uint32_t bytes) { return absl::StrCat(bytes / 1024, " KiB"); }

// The fields that a target must have, and how people are shown what they hold.
struct Field {
  const char* name;
  uint32_t value;
};

std::vector<Field> FieldsOf(const v1::Target& target) {
  if (target.has_cpu()) {
    const v1::CpuTarget& cpu = target.cpu();
    return {{"cpu.isa", static_cast<uint32_t>(cpu.isa())},
            {"cpu.l1_bytes", cpu.l1_bytes()},
            {"cpu.l2_bytes", cpu.l2_bytes()}};
  }
  const v1::CudaTarget& cuda = target.cuda();
  return {{"cuda.sm", cuda.sm()},
          {"cuda.multiprocessors", cuda.multiprocessors()},
          {"cuda.shared_bytes_per_block", cuda.shared_bytes_per_block()},
          {"cuda.l2_bytes", cuda.l2_bytes()},
          {"cuda.registers_per_multiprocessor", cuda.registers_per_multiprocessor()}};
}

bool IsCalled(const v1::Target& target, const std::string& name) {
  const std::string whole = TargetName(target), architecture = Architecture(target);
  return name == architecture ||
         (absl::StartsWith(name, architecture + "-") && absl::StartsWith(whole, name));
}

}  // namespace

std::string TargetName(const v1::Target& target) {
  return absl::StrCat(Architecture(target), "-",
                      ToHex(Sha256(target.SerializeAsString())).substr(0, kShownDigits));
}

std::string DescribeTarget(const v1::Target& target) {
  if (target.has_cpu()) {
    return absl::StrCat("caches of ", Kib(target.cpu().l1_bytes()), " and ",
                        Kib(target.cpu().l2_bytes()), " a core");
  }
  const v1::CudaTarget& cuda = target.cuda();
  return absl::StrCat(cuda.multiprocessors(), " multiprocessors of ",
                      cuda.registers_per_multiprocessor(), " registers, ",
                      Kib(cuda.shared_bytes_per_block()), " shared by a block, cache of ",
                      Kib(cuda.l2_bytes()));
}

std::string TargetText(const v1::Target& target) {
  std::string text;
  google::protobuf::TextFormat::PrintToString(target, &text);
  return absl::StrCat("# ", TargetName(target), ": ", DescribeTarget(target), "\n", text);
}

absl::StatusOr<v1::Target> ReadTarget(const std::string& text, const std::string& where) {
  v1::Target target;
  google::protobuf::TextFormat::Parser parser;
  FirstError error;
  parser.RecordErrorsTo(&error);
  if (!parser.ParseFromString(text, &target)) {
    return absl::InvalidArgumentError(absl::StrCat(
        where, ": ", error.text, " (a target is what tensorctl targets NAME -o FILE writes)"));
  }
  if (target.kind_case() == v1::Target::KIND_NOT_SET) {
    return absl::InvalidArgumentError(absl::StrCat(where, ": it has neither cpu nor cuda"));
  }
  for (const Field& field : FieldsOf(target)) {
    if (field.value != 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(where, ": it has no ", field.name,
                     ", which is part of every program's key: take the target from a host whose "
                     "jobs compile for it (tensorctl targets)"));
  }
  return target;
}

void SeenTargets::Add(const v1::Target& target) {
  const std::string bytes = target.SerializeAsString();
  const auto found = std::find_if(seen_.begin(), seen_.end(), [&](const SeenTarget& seen) {
    return seen.target.SerializeAsString() == bytes;
  });
  ++(found != seen_.end() ? *found : seen_.emplace_back(SeenTarget{target})).programs;
}

absl::Status SeenTargets::AddStored(store::Store& store) {
  TENSORD_ASSIGN_OR_RETURN(const auto programs, store.List(0));
  for (const store::ProgramRow& row : programs) {
    const auto record = store.Peek(row.key);
    v1::Artifact artifact;
    // One that has gone meanwhile, or is damaged, says nothing.
    if (!record.ok() || !artifact.ParseFromString((*record)->payload)) continue;
    if (artifact.has_target()) Add(artifact.target());
  }
  return absl::OkStatus();
}

std::vector<SeenTarget> SeenTargets::List() const {
  std::vector<SeenTarget> list = seen_;
  std::sort(list.begin(), list.end(), [](const SeenTarget& one, const SeenTarget& other) {
    return one.programs != other.programs ? one.programs > other.programs
                                          : TargetName(one.target) < TargetName(other.target);
  });
  return list;
}

absl::StatusOr<v1::Target> SeenTargets::Find(const std::string& name) const {
  std::vector<std::string> names;
  const v1::Target* found = nullptr;
  for (const SeenTarget& seen : seen_) {
    if (!IsCalled(seen.target, name)) continue;
    names.push_back(TargetName(seen.target));
    found = &seen.target;
  }
  if (names.size() == 1) return *found;
  if (names.size() > 1) {
    std::sort(names.begin(), names.end());
    return absl::FailedPreconditionError(
        absl::StrCat("several targets are called '", name, "': ", absl::StrJoin(names, ", "),
                     "; give one of them (tensorctl targets says what they have)"));
  }
  return absl::NotFoundError(absl::StrCat(
      "no program here is for a target called '", name,
      "'. A key holds a target whole, with multiprocessors, caches and registers, which no name "
      "says: on a host whose jobs compile for it, tensorctl targets NAME -o FILE writes it for "
      "--target FILE; so does what was imported or prefetched from there"));
}

absl::StatusOr<v1::Target> SeenTargets::FindOrRead(const std::string& word) const {
  std::error_code ignored;
  if (!absl::StrContains(word, '/') && !std::filesystem::is_regular_file(word, ignored)) {
    return Find(word);
  }
  TENSORD_ASSIGN_OR_RETURN(const std::string text, store::ReadFile(word));
  return ReadTarget(text, word);
}

}  // namespace tensord::server
