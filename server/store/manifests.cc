// SPDX-License-Identifier: Apache-2.0
#include "server/store/manifests.h"

#include <absl/strings/str_cat.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <openssl/rand.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/check.h"
#include "base/sha256.h"
#include "base/version.h"

namespace tensord::store {
namespace {

constexpr std::string_view kMagic = kManifestMagic;
constexpr size_t kPrefix = kMagic.size() + 3 * 8;
constexpr size_t kMac = 32;
constexpr size_t kHeader = kPrefix + 2 * kMac;
// Enough for a few hundred programs in use; keeps an idle daemon small.
constexpr size_t kMaxCachedBytes = 8 << 20;

void AppendU64(std::string& out, uint64_t value) {
  for (int i = 0; i < 8; ++i) out.push_back(static_cast<char>(value >> (8 * i)));
}

uint64_t ReadU64(std::string_view data, size_t at) {
  uint64_t value = 0;
  for (int i = 7; i >= 0; --i) value = value << 8 | static_cast<uint8_t>(data[at + i]);
  return value;
}

bool SameMac(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

struct Layout {
  std::string_view prefix, payload_mac, detail_mac, blobs, payload, detail;
};

// Splits a file into its parts; DataLoss when the sizes do not add up.
absl::StatusOr<Layout> Split(std::string_view data) {
  const auto corrupt = [] {
    return absl::DataLossError("manifest is cut short or not a manifest");
  };
  if (data.size() < kHeader || data.substr(0, kMagic.size()) != kMagic) return corrupt();
  const uint64_t payload = ReadU64(data, kMagic.size());
  const uint64_t detail = ReadU64(data, kMagic.size() + 8);
  const uint64_t blobs = ReadU64(data, kMagic.size() + 16);
  const uint64_t body = data.size() - kHeader;
  if (blobs > body / kSha256Bytes || payload > body || detail > body ||
      blobs * kSha256Bytes + payload + detail != body) {
    return corrupt();
  }
  Layout layout;
  layout.prefix = data.substr(0, kPrefix);
  layout.payload_mac = data.substr(kPrefix, kMac);
  layout.detail_mac = data.substr(kPrefix + kMac, kMac);
  layout.blobs = data.substr(kHeader, blobs * kSha256Bytes);
  layout.payload = data.substr(kHeader + layout.blobs.size(), payload);
  layout.detail = data.substr(data.size() - detail);
  return layout;
}

size_t Cost(const Manifest& manifest) {
  return manifest.payload.size() + manifest.blobs.size() * kSha256Bytes + 256;
}

}  // namespace

absl::StatusOr<Signer> Signer::Open(const std::string& path, const std::string& temp_folder) {
  if (access(path.c_str(), F_OK) != 0) {
    std::string key(32, '\0');
    TENSORD_CHECK(RAND_bytes(reinterpret_cast<unsigned char*>(key.data()),
                             static_cast<int>(key.size())) == 1);
    // Two daemons may get here at once: link() gives the name to one of them, and both read it.
    const std::string fresh =
        absl::StrCat(temp_folder, "/key.", getpid(), ".", reinterpret_cast<uintptr_t>(key.data()));
    TENSORD_RETURN_IF_ERROR(WriteFileAtomically(fresh, key, 0600, temp_folder));
    const int failed = link(fresh.c_str(), path.c_str());
    const int error = errno;
    unlink(fresh.c_str());
    if (failed && error != EEXIST) return absl::ErrnoToStatus(error, "cannot create " + path);
  }
  struct stat info;
  if (stat(path.c_str(), &info) != 0) return absl::ErrnoToStatus(errno, "cannot stat " + path);
  if ((info.st_mode & 077) != 0 || info.st_uid != geteuid()) {
    return absl::FailedPreconditionError(absl::StrCat(
        path,
        " must belong to this user and be closed to others: chmod 600 it, or delete it to "
        "start with an empty store"));
  }
  TENSORD_ASSIGN_OR_RETURN(std::string key, ReadFile(path));
  if (key.size() != 32) {
    return absl::FailedPreconditionError(absl::StrCat(path, " is not a key: delete it"));
  }
  return Signer(std::move(key));
}

std::string Signer::Sign(std::initializer_list<std::string_view> fields) const {
  // One-time look-ups of the algorithm; contexts are per call.
  static EVP_MAC* const hmac = EVP_MAC_fetch(nullptr, "HMAC", nullptr);
  EVP_MAC_CTX* context = EVP_MAC_CTX_new(hmac);
  char digest[] = "SHA256";
  const OSSL_PARAM parameters[] = {OSSL_PARAM_construct_utf8_string("digest", digest, 0),
                                   OSSL_PARAM_construct_end()};
  const auto bytes = [](std::string_view data) {
    return reinterpret_cast<const unsigned char*>(data.data());
  };
  TENSORD_CHECK(EVP_MAC_init(context, bytes(key_), key_.size(), parameters) == 1);
  for (const std::string_view field : fields) {
    std::string size;
    AppendU64(size, field.size());
    EVP_MAC_update(context, bytes(size), size.size());
    EVP_MAC_update(context, bytes(field), field.size());
  }
  std::string mac(kMac, '\0');
  size_t length = 0;
  TENSORD_CHECK(EVP_MAC_final(context, reinterpret_cast<unsigned char*>(mac.data()), &length,
                              mac.size()) == 1);
  EVP_MAC_CTX_free(context);
  return mac;
}

std::string ManifestFolder::PathOf(std::string_view key) const {
  const std::string hex = ToHex(key);
  return absl::StrCat(folder_, "/", hex.substr(0, 2), "/", hex);
}

absl::StatusOr<uint64_t> ManifestFolder::Put(std::string_view key, const Manifest& manifest,
                                             std::string_view detail) const {
  std::string prefix(kMagic);
  AppendU64(prefix, manifest.payload.size());
  AppendU64(prefix, detail.size());
  AppendU64(prefix, manifest.blobs.size());
  std::string blobs;
  for (const std::string& blob : manifest.blobs) {
    TENSORD_CHECK(blob.size() == kSha256Bytes);
    blobs += blob;
  }
  std::string data =
      absl::StrCat(prefix, signer_.Sign({"payload", key, prefix, blobs, manifest.payload}),
                   signer_.Sign({"detail", key, detail}), blobs, manifest.payload);
  data += detail;
  const std::string path = PathOf(key);
  TENSORD_RETURN_IF_ERROR(MakeFolder(path.substr(0, path.rfind('/'))));
  TENSORD_RETURN_IF_ERROR(WriteFileAtomically(path, data, 0444, temp_folder_));
  return data.size();
}

absl::StatusOr<std::shared_ptr<const Manifest>> ManifestFolder::Get(std::string_view key) {
  const std::string path = PathOf(key);
  struct stat info;
  if (stat(path.c_str(), &info) != 0) {
    Forget(key);
    return absl::NotFoundError("no such program");
  }
  const FileIdentity identity = IdentityOf(info);
  if (auto found = by_key_.find(std::string(key)); found != by_key_.end()) {
    if (found->second->identity == identity) {
      recent_.splice(recent_.begin(), recent_, found->second);
      return found->second->manifest;
    }
    Forget(key);
  }
  TENSORD_ASSIGN_OR_RETURN(const std::string data, ReadFile(path));
  TENSORD_ASSIGN_OR_RETURN(const Layout layout, Split(data));
  if (!SameMac(layout.payload_mac,
               signer_.Sign({"payload", key, layout.prefix, layout.blobs, layout.payload}))) {
    return absl::DataLossError(absl::StrCat("manifest ", path, " is not signed by this store"));
  }
  auto manifest = std::make_shared<Manifest>();
  for (size_t at = 0; at < layout.blobs.size(); at += kSha256Bytes) {
    manifest->blobs.emplace_back(layout.blobs.substr(at, kSha256Bytes));
  }
  manifest->payload = layout.payload;
  if (Cost(*manifest) <= kMaxCachedBytes) {
    recent_.push_front({std::string(key), identity, manifest});
    by_key_[std::string(key)] = recent_.begin();
    cached_bytes_ += Cost(*manifest);
    while (cached_bytes_ > kMaxCachedBytes) Forget(std::string(recent_.back().key));
  }
  return std::shared_ptr<const Manifest>(manifest);
}

absl::StatusOr<std::string> ManifestFolder::GetDetail(std::string_view key) const {
  TENSORD_ASSIGN_OR_RETURN(const std::string data, ReadFile(PathOf(key)));
  TENSORD_ASSIGN_OR_RETURN(const Layout layout, Split(data));
  if (!SameMac(layout.detail_mac, signer_.Sign({"detail", key, layout.detail}))) {
    return absl::DataLossError("manifest is not signed by this store");
  }
  return std::string(layout.detail);
}

void ManifestFolder::Remove(std::string_view key) const { unlink(PathOf(key).c_str()); }

void ManifestFolder::Forget(std::string_view key) {
  const auto found = by_key_.find(std::string(key));
  if (found == by_key_.end()) return;
  cached_bytes_ -= Cost(*found->second->manifest);
  recent_.erase(found->second);
  by_key_.erase(found);
}

}  // namespace tensord::store
