// SPDX-License-Identifier: Apache-2.0
// A file of `tensorctl export`, as somebody brought it: what is taken for one has nothing but what
// it lists, byte for byte as TarWriter writes it.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/sha256.h"
#include "base/version.h"
#include "server/archive/contents.h"
#include "server/archive/import.h"
#include "server/archive/kinds.h"
#include "server/archive/tar.h"
#include "server/fleet/folder_tier.h"
#include "server/fleet/keys.h"
#include "server/fleet/sealed.h"
#include "server/store/blobs.h"
#include "tests/fuzz/targets/folder.h"
#include "tests/fuzz/targets/target.h"

namespace tensord::fuzz {
namespace {

using Entries = std::vector<std::pair<std::string, std::string>>;

// Before the body of what is sealed: magic, the key's id, its signature.
constexpr size_t kSealBytes = kFleetMagic.size() + fleet::kKeyIdBytes + fleet::kSignatureBytes;
const archive::Host kHost{"a build", nullptr};

class Folder {
 public:
  Folder() : path_(MakeFolder()) {
    TENSORD_CHECK(fleet::Keys::Make(path_ + "/key", "key").ok());
    auto keys = fleet::Keys::Open(path_ + "/key", "");
    TENSORD_CHECK(keys.ok(), keys.status().ToString());
    keys_ = *std::move(keys);
  }
  ~Folder() { std::filesystem::remove_all(path_); }

  std::string file() const { return path_ + "/file"; }
  fleet::Keys& keys() const { return *keys_; }

 private:
  std::string path_;
  std::unique_ptr<fleet::Keys> keys_;
};

// In the order of the file.
Entries Read(const archive::TarReader& reader) {
  std::vector<std::pair<uint64_t, std::string>> order;
  for (const auto& [name, entry] : reader.entries()) order.emplace_back(entry.offset, name);
  std::sort(order.begin(), order.end());
  Entries entries;
  for (const auto& [offset, name] : order) {
    const auto& entry = reader.entries().find(name)->second;
    const auto content = reader.Read(entry, entry.bytes);
    TENSORD_CHECK(content.ok() && content->size() == entry.bytes);
    entries.emplace_back(name, *content);
  }
  return entries;
}

void Write(const std::string& file, const Entries& entries) {
  auto writer = archive::TarWriter::Create(file);
  TENSORD_CHECK(writer.ok(), writer.status().ToString());
  for (const auto& [name, content] : entries) TENSORD_CHECK(writer->Add(name, content).ok());
  TENSORD_CHECK(writer->Finish().ok());
}

// What a trusted host would have to sign for these manifests to be looked into: each under its
// name, with a list of them.
void WriteSigned(const Folder& folder, const Entries& entries) {
  auto writer = archive::TarWriter::Create(folder.file());
  TENSORD_CHECK(writer.ok(), writer.status().ToString());
  v1::FleetContents contents;
  contents.set_compiler_build(kHost.compiler_build);
  contents.set_frame_format(kFrameFormat);
  for (const auto& [path, content] : entries) {
    // "program/ab/<hex>" -> "program/<hex>"
    const size_t end = path.rfind('/');
    const auto name = archive::ParseName(path.substr(0, path.find('/')) +
                                         (end == std::string::npos ? "" : path.substr(end)));
    if (!name.ok() || name->kind == "contents" || fleet::FolderPath(name->Path()) != path) continue;
    std::string value = content;
    if (name->kind != "blob") {
      value = Seal(folder.keys(), *name,
                   content.size() < kSealBytes ? content : content.substr(kSealBytes));
      contents.add_manifests()->set_name(name->Path());
      contents.mutable_manifests()->rbegin()->set_sha256(Sha256(value));
    }
    TENSORD_CHECK(writer->Add(path, value).ok());
  }
  TENSORD_CHECK(WriteContents(*writer, folder.keys(), contents).ok());
  TENSORD_CHECK(writer->Finish().ok());
}

bool IsAVerdict(const absl::Status& status) {
  return status.ok() || absl::IsDataLoss(status) || absl::IsFailedPrecondition(status);
}

// The first byte says whether manifests are to be signed.
void Run(std::string_view input) {
  static const Folder folder;
  if (input.empty()) return;
  const bool is_to_be_signed = input.front() == 's';
  input.remove_prefix(1);
  std::ofstream(folder.file(), std::ios::binary) << input;
  const absl::Status verdict = archive::CheckFile(folder.keys(), kHost, folder.file()).status();
  TENSORD_CHECK(absl::IsDataLoss(verdict), verdict.ToString());  // nobody has signed it
  Entries entries;
  {
    const auto reader = archive::TarReader::Open(folder.file());
    if (!reader.ok()) return;
    entries = Read(*reader);
  }
  Write(folder.file(), entries);
  const auto again = store::ReadFile(folder.file());
  TENSORD_CHECK(again.ok() && *again == input, "it has more than its entries");
  if (!is_to_be_signed) return;
  WriteSigned(folder, entries);
  const absl::Status signed_ = archive::CheckFile(folder.keys(), kHost, folder.file()).status();
  TENSORD_CHECK(IsAVerdict(signed_), signed_.ToString());
}

}  // namespace

const Target kArchiveTarget = {.name = "archive", .run = Run};

}  // namespace tensord::fuzz
