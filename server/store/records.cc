// SPDX-License-Identifier: Apache-2.0
#include "server/store/records.h"

#include <absl/strings/str_cat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/check.h"
#include "base/sha256.h"
#include "base/version.h"

namespace tensord::store {
namespace {

constexpr std::string_view kMagic = kRecordMagic;
constexpr size_t kPrefix = kMagic.size() + 4 * 8;
constexpr size_t kMac = 32;
constexpr size_t kHeader = kPrefix + kMac;
// Enough for a few hundred programs in use; keeps an idle daemon small.
constexpr size_t kMaxCachedBytes = 8 << 20;

uint64_t ReadU64(std::string_view data, size_t at) {
  uint64_t value = 0;
  for (int i = 7; i >= 0; --i) value = value << 8 | static_cast<uint8_t>(data[at + i]);
  return value;
}

struct Layout {
  std::string_view prefix, mac, body;
  std::string_view blobs, payload, facts, detail;  // of the body
};

// Splits a file into its parts. NotFound: of an older form. Unimplemented: of a newer one.
// DataLoss: the sizes do not add up.
absl::StatusOr<Layout> Split(std::string_view data) {
  // What all forms begin with; the last byte is the form's, a digit.
  constexpr size_t kName = kMagic.size() - 1;
  if (data.substr(0, kName) == kMagic.substr(0, kName) && data.size() > kName) {
    const char form = data[kName];
    if (form < kMagic[kName]) return absl::NotFoundError("the record is of an older form");
    if (form > kMagic[kName] && form <= '9') {
      return absl::UnimplementedError("the record is of a newer daemon's form");
    }
  }
  if (data.size() < kHeader || data.substr(0, kMagic.size()) != kMagic) {
    return absl::DataLossError("the record is cut short or not a record");
  }
  uint64_t sizes[4];
  for (size_t i = 0; i < 4; ++i) sizes[i] = ReadU64(data, kMagic.size() + 8 * i);
  const auto [payload, facts, detail, blobs] = sizes;
  const uint64_t body = data.size() - kHeader;
  if (blobs > body / kSha256Bytes || payload > body || facts > body || detail > body ||
      blobs * kSha256Bytes + payload + facts + detail != body) {
    return absl::DataLossError("the record's sizes are not those of its file");
  }
  Layout layout;
  layout.prefix = data.substr(0, kPrefix);
  layout.mac = data.substr(kPrefix, kMac);
  layout.body = data.substr(kHeader);
  layout.blobs = layout.body.substr(0, blobs * kSha256Bytes);
  layout.payload = layout.body.substr(layout.blobs.size(), payload);
  layout.facts = layout.body.substr(layout.blobs.size() + payload, facts);
  layout.detail = layout.body.substr(body - detail);
  return layout;
}

size_t Cost(const Record& record) {
  return record.payload.size() + record.facts.size() + record.blobs.size() * kSha256Bytes + 256;
}

}  // namespace

std::string RecordFolder::PathOf(std::string_view key) const {
  const std::string hex = ToHex(key);
  return absl::StrCat(folder_, "/", hex.substr(0, 2), "/", hex);
}

std::string EncodeRecord(const Signer& signer, std::string_view kind, std::string_view key,
                         const Record& record, std::string_view detail) {
  std::string prefix(kMagic);
  for (const size_t size :
       {record.payload.size(), record.facts.size(), detail.size(), record.blobs.size()}) {
    AppendU64(prefix, size);
  }
  std::string body;
  for (const std::string& blob : record.blobs) {
    TENSORD_CHECK(blob.size() == kSha256Bytes);
    body += blob;
  }
  body.append(record.payload).append(record.facts).append(detail);
  return absl::StrCat(prefix, signer.Sign({kind, key, prefix, body}), body);
}

absl::Status RecordFolder::Put(std::string_view key, const Record& record,
                               std::string_view detail) const {
  const std::string path = PathOf(key);
  TENSORD_RETURN_IF_ERROR(MakeFolder(path.substr(0, path.rfind('/'))));
  return WriteFileAtomically(path, EncodeRecord(*signer_, kind_, key, record, detail), 0444,
                             temp_folder_);
}

absl::StatusOr<std::shared_ptr<const Record>> RecordFolder::Get(std::string_view key) {
  const std::string path = PathOf(key);
  struct stat info;
  if (stat(path.c_str(), &info) != 0) {
    const int error = errno;
    Forget(key);
    return absl::ErrnoToStatus(error, "no record " + path);
  }
  const FileIdentity identity = IdentityOf(info);
  if (auto found = by_key_.find(std::string(key)); found != by_key_.end()) {
    if (found->second->identity == identity) {
      recent_.splice(recent_.begin(), recent_, found->second);
      return found->second->record;
    }
    Forget(key);
  }
  TENSORD_ASSIGN_OR_RETURN(Record read, Read(key));
  auto record = std::make_shared<const Record>(std::move(read));
  Keep(key, identity, record);
  return record;
}

absl::StatusOr<Record> RecordFolder::Read(std::string_view key) const {
  const std::string path = PathOf(key);
  TENSORD_ASSIGN_OR_RETURN(const std::string data, ReadFile(path));
  TENSORD_ASSIGN_OR_RETURN(const Layout layout, Split(data));
  if (!signer_->Verify(layout.mac, {kind_, key, layout.prefix, layout.body})) {
    return absl::DataLossError(absl::StrCat("record ", path, " is not signed by this store"));
  }
  Record record;
  for (size_t at = 0; at < layout.blobs.size(); at += kSha256Bytes) {
    record.blobs.emplace_back(layout.blobs.substr(at, kSha256Bytes));
  }
  record.payload = layout.payload;
  record.facts = layout.facts;
  return record;
}

absl::StatusOr<std::string> RecordFolder::GetDetail(std::string_view key) const {
  TENSORD_ASSIGN_OR_RETURN(const std::string data, ReadFile(PathOf(key)));
  TENSORD_ASSIGN_OR_RETURN(const Layout layout, Split(data));
  if (!signer_->Verify(layout.mac, {kind_, key, layout.prefix, layout.body})) {
    return absl::DataLossError("the record is not signed by this store");
  }
  return std::string(layout.detail);
}

void RecordFolder::Remove(std::string_view key) const { unlink(PathOf(key).c_str()); }

bool RecordFolder::ForEachKey(const std::function<void(const std::string& key)>& visit) const {
  return ForEachDigestFile(folder_,
                           [&](const std::string& key, const std::string&) { visit(key); });
}

void RecordFolder::ForEachByte(
    const std::function<void(const std::vector<std::string>& keys)>& visit) const {
  for (int byte = 0; byte < 256; ++byte) {
    std::vector<std::string> keys;
    const char first[] = {static_cast<char>(byte)};
    const std::string folder = absl::StrCat(folder_, "/", ToHex({first, 1}));
    ForEachDigestFile(folder, [&](const std::string& key, const std::string&) {
      if (key[0] == first[0]) keys.push_back(key);
    });
    std::sort(keys.begin(), keys.end());
    if (!keys.empty()) visit(keys);
  }
}

void RecordFolder::Keep(std::string_view key, const FileIdentity& identity,
                        std::shared_ptr<const Record> record) {
  const size_t cost = Cost(*record);
  if (cost > kMaxCachedBytes) return;
  recent_.push_front({std::string(key), identity, std::move(record)});
  by_key_[std::string(key)] = recent_.begin();
  cached_bytes_ += cost;
  while (cached_bytes_ > kMaxCachedBytes) Forget(std::string(recent_.back().key));
}

void RecordFolder::Forget(std::string_view key) {
  const auto found = by_key_.find(std::string(key));
  if (found == by_key_.end()) return;
  cached_bytes_ -= Cost(*found->second->record);
  recent_.erase(found->second);
  by_key_.erase(found);
}

void RecordFolder::ForgetAll() {
  recent_.clear();
  by_key_.clear();
  cached_bytes_ = 0;
}

}  // namespace tensord::store
