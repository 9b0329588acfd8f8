// SPDX-License-Identifier: Apache-2.0
// Files of the store as they are found: a record, the key's file and that of old keys. What counts
// is what EncodeRecord() wrote with a key of the store's, byte for byte.
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "base/check.h"
#include "base/sha256.h"
#include "base/version.h"
#include "server/store/frame_facts.h"
#include "server/store/program_facts.h"
#include "server/store/records.h"
#include "server/store/signer.h"
#include "tests/fuzz/targets/folder.h"
#include "tests/fuzz/targets/target.h"

namespace tensord::fuzz {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kKind = "program";
// As records.cc has it: magic, four sizes, the HMAC.
constexpr size_t kMacAt = kRecordMagic.size() + 4 * 8, kMacBytes = 32;

// A folder with a key that is always the same, so that inputs may be signed with it.
class Folder {
 public:
  Folder() {
    path_ = MakeFolder();
    Write("key", std::string(32, 'k'));
    auto signer = store::Signer::Open(path_ + "/key", path_);
    TENSORD_CHECK(signer.ok(), signer.status().ToString());
    signer_ = *std::move(signer);
  }
  ~Folder() { fs::remove_all(path_); }

  void Write(const std::string& name, std::string_view content) const {
    const std::string path = path_ + "/" + name;
    fs::create_directories(fs::path(path).parent_path());
    fs::remove(path);
    std::ofstream(path, std::ios::binary) << content;
    fs::permissions(path, fs::perms::owner_read | fs::perms::owner_write);
  }

  const std::string& path() const { return path_; }
  const store::Signer& signer() const { return *signer_; }

 private:
  std::string path_;
  std::unique_ptr<store::Signer> signer_;
};

// What the daemon does with a record that is sound.
void ReadRecord(const Folder& folder, std::string_view bytes) {
  const std::string key = Sha256("a key");
  store::RecordFolder records(std::string(kKind), folder.path() + "/records", folder.path(),
                              &folder.signer());
  folder.Write(records.PathOf(key).substr(folder.path().size() + 1), bytes);
  const auto record = records.Get(key);
  const auto detail = records.GetDetail(key);
  TENSORD_CHECK(record.ok() == detail.ok(), "half a record");
  if (!record.ok()) {
    // Gone, or in the form of a newer daemon, whose it stays.
    TENSORD_CHECK(store::IsGone(record.status()) || absl::IsUnimplemented(record.status()),
                  record.status().ToString());
    return;
  }
  TENSORD_CHECK(store::EncodeRecord(folder.signer(), kKind, key, **record, *detail) == bytes,
                "it says what was not written");
  const store::ProgramFacts program = store::DecodeProgramFacts((*record)->facts);
  store::DecodeProgramFacts(store::Encode(program));
  const auto frame = store::DecodeFrameFacts((*record)->facts);
  if (!frame.ok()) return;
  TENSORD_CHECK(store::DecodeFrameFacts(store::Encode(*frame)).ok());
}

// Signed by the store, as what damage cannot do.
std::string Signed(const Folder& folder, std::string_view bytes) {
  std::string record(bytes);
  const std::string mac = folder.signer().Sign(
      {kKind, Sha256("a key"), bytes.substr(0, kMacAt), bytes.substr(kMacAt + kMacBytes)});
  return record.replace(kMacAt, kMacBytes, mac);
}

void ReadKeys(const Folder& folder, std::string_view key, std::string_view old) {
  folder.Write("other/key", key);
  folder.Write("other/key.old", old);
  const auto signer = store::Signer::Open(folder.path() + "/other/key", folder.path());
  TENSORD_CHECK(signer.ok() == (key.size() == 32 && !old.empty() && old.size() % 32 == 0));
  if (!signer.ok()) return;
  TENSORD_CHECK((*signer)->Verify((*signer)->Sign({"text"}), {"text"}));
}

// The first byte says what the rest is.
void Run(std::string_view input) {
  static const Folder folder;
  if (input.empty()) return;
  const char kind = input.front();
  input.remove_prefix(1);
  switch (kind) {
    case 'k':
      return ReadKeys(folder, input, std::string(32, 'o'));
    case 'o':
      return ReadKeys(folder, std::string(32, 'k'), input);
    case 's':
      return ReadRecord(
          folder, input.size() < kMacAt + kMacBytes ? std::string(input) : Signed(folder, input));
    default:
      return ReadRecord(folder, input);
  }
}

}  // namespace

const Target kRecordTarget = {.name = "record", .run = Run};

}  // namespace tensord::fuzz
