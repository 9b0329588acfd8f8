// SPDX-License-Identifier: Apache-2.0
#include "server/store/signer.h"

#include <absl/strings/str_cat.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <openssl/rand.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/check.h"
#include "server/store/file_lock.h"

namespace tensord::store {
namespace {

constexpr size_t kKeyBytes = 32;
constexpr size_t kMacBytes = 32;

constexpr size_t kMostOldKeys = 8;

std::string OldKeysOf(const std::string& path) { return path + ".old"; }

std::string NewKey() {
  std::string key(kKeyBytes, '\0');
  TENSORD_CHECK(
      RAND_bytes(reinterpret_cast<unsigned char*>(key.data()), static_cast<int>(key.size())) == 1);
  return key;
}

// Two daemons may get here at once: link() gives the name to one of them, and both read it.
absl::Status MakeKey(const std::string& path, const std::string& temp_folder) {
  const std::string key = NewKey();
  const std::string fresh =
      absl::StrCat(temp_folder, "/key.", getpid(), ".", reinterpret_cast<uintptr_t>(key.data()));
  TENSORD_RETURN_IF_ERROR(WriteFileAtomically(fresh, key, 0600, temp_folder));
  const int failed = link(fresh.c_str(), path.c_str());
  const int error = errno;
  unlink(fresh.c_str());
  if (failed && error != EEXIST) return absl::ErrnoToStatus(error, "cannot create " + path);
  // Without its key, nothing that it signed counts.
  return SyncFolderOf(path);
}

// The keys of a file, and what the file was like. NotFound: there is none.
absl::StatusOr<std::vector<std::string>> ReadKeys(const std::string& path, FileIdentity* identity) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0) return absl::ErrnoToStatus(errno, "cannot stat " + path);
  if ((info.st_mode & 077) != 0 || info.st_uid != geteuid()) {
    return absl::FailedPreconditionError(absl::StrCat(
        path,
        " must belong to this user and be closed to others: chmod 600 it, or delete it, with which "
        "programs that were signed with its keys are compiled anew"));
  }
  TENSORD_ASSIGN_OR_RETURN(const std::string data, ReadFile(path));
  if (data.empty() || data.size() % kKeyBytes != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, " has no key of ", kKeyBytes, " bytes: delete it"));
  }
  *identity = IdentityOf(info);
  std::vector<std::string> keys;
  for (size_t at = 0; at < data.size(); at += kKeyBytes) {
    keys.push_back(data.substr(at, kKeyBytes));
  }
  return keys;
}

bool SameMac(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

const unsigned char* Data(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

std::string Hmac(std::string_view key, Signer::Fields fields) {
  // One-time look-ups of the algorithm; contexts are per call.
  static EVP_MAC* const hmac = EVP_MAC_fetch(nullptr, "HMAC", nullptr);
  EVP_MAC_CTX* context = EVP_MAC_CTX_new(hmac);
  char digest[] = "SHA256";
  const OSSL_PARAM parameters[] = {OSSL_PARAM_construct_utf8_string("digest", digest, 0),
                                   OSSL_PARAM_construct_end()};
  TENSORD_CHECK(EVP_MAC_init(context, Data(key), key.size(), parameters) == 1);
  for (const std::string_view field : fields) {
    std::string size;
    AppendU64(size, field.size());
    EVP_MAC_update(context, Data(size), size.size());
    EVP_MAC_update(context, Data(field), field.size());
  }
  std::string mac(kMacBytes, '\0');
  size_t length = 0;
  TENSORD_CHECK(EVP_MAC_final(context, reinterpret_cast<unsigned char*>(mac.data()), &length,
                              mac.size()) == 1);
  EVP_MAC_CTX_free(context);
  return mac;
}

}  // namespace

void AppendU64(std::string& out, uint64_t value) {
  for (int i = 0; i < 8; ++i) out.push_back(static_cast<char>(value >> (8 * i)));
}

absl::StatusOr<std::unique_ptr<Signer>> Signer::Open(std::string path, std::string temp_folder) {
  auto signer = std::unique_ptr<Signer>(new Signer(std::move(path), std::move(temp_folder)));
  absl::MutexLock lock(&signer->mutex_);
  TENSORD_RETURN_IF_ERROR(signer->Load());
  return signer;
}

absl::Status Signer::Load() {
  if (access(path_.c_str(), F_OK) != 0) TENSORD_RETURN_IF_ERROR(MakeKey(path_, temp_folder_));
  FileIdentity identity, old_identity;
  TENSORD_ASSIGN_OR_RETURN(std::vector<std::string> keys, ReadKeys(path_, &identity));
  if (keys.size() != 1) {
    return absl::FailedPreconditionError(absl::StrCat(path_, " is not a key: delete it"));
  }
  const auto old = ReadKeys(OldKeysOf(path_), &old_identity);
  if (!old.ok() && !absl::IsNotFound(old.status())) return old.status();
  if (old.ok()) keys.insert(keys.end(), old->begin(), old->end());
  identity_ = identity;
  old_identity_ = old_identity;
  keys_ = std::move(keys);
  return absl::OkStatus();
}

bool Signer::Refresh() {
  absl::MutexLock lock(&mutex_);
  if (IdentityAt(path_) == identity_ && IdentityAt(OldKeysOf(path_)) == old_identity_) {
    return false;
  }
  const std::vector<std::string> before = keys_;
  return Load().ok() && keys_ != before;
}

std::string Signer::Sign(Fields fields) const {
  std::string key;
  {
    absl::MutexLock lock(&mutex_);
    key = keys_.front();
  }
  return Hmac(key, fields);
}

bool Signer::Verify(std::string_view mac, Fields fields) const {
  std::vector<std::string> keys;
  {
    absl::MutexLock lock(&mutex_);
    keys = keys_;
  }
  return std::any_of(keys.begin(), keys.end(),
                     [&](const std::string& key) { return SameMac(mac, Hmac(key, fields)); });
}

absl::Status Signer::Rotate(const std::string& path, const std::string& temp_folder) {
  // Of two at once each would list the same key, and the first one's new key would be lost.
  const FileLock lock(path + ".lock");
  if (!lock.held()) return absl::ErrnoToStatus(errno, "cannot lock " + path + ".lock");
  FileIdentity ignored;
  TENSORD_ASSIGN_OR_RETURN(std::vector<std::string> keys, ReadKeys(path, &ignored));
  const auto old = ReadKeys(OldKeysOf(path), &ignored);
  if (!old.ok() && !absl::IsNotFound(old.status())) return old.status();
  if (old.ok()) keys.insert(keys.end(), old->begin(), old->end());
  if (keys.size() > kMostOldKeys) keys.resize(kMostOldKeys);
  std::string list;
  for (const std::string& key : keys) list += key;
  // First the list: at every moment what was signed can be verified.
  TENSORD_RETURN_IF_ERROR(WriteFileAtomically(OldKeysOf(path), list, 0600, temp_folder));
  return WriteFileAtomically(path, NewKey(), 0600, temp_folder);
}

}  // namespace tensord::store
