// SPDX-License-Identifier: Apache-2.0
#include "server/store/signer.h"

#include <absl/strings/str_cat.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <openssl/rand.h>
#include <unistd.h>

#include <cerrno>

#include "base/check.h"

namespace tensord::store {
namespace {

constexpr size_t kKeyBytes = 32;
constexpr size_t kMacBytes = 32;

// Two daemons may get here at once: link() gives the name to one of them, and both read it.
absl::Status MakeKey(const std::string& path, const std::string& temp_folder) {
  std::string key(kKeyBytes, '\0');
  TENSORD_CHECK(
      RAND_bytes(reinterpret_cast<unsigned char*>(key.data()), static_cast<int>(key.size())) == 1);
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

const unsigned char* Data(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
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
  struct stat info;
  if (stat(path_.c_str(), &info) != 0) return absl::ErrnoToStatus(errno, "cannot stat " + path_);
  if ((info.st_mode & 077) != 0 || info.st_uid != geteuid()) {
    return absl::FailedPreconditionError(absl::StrCat(
        path_,
        " must belong to this user and be closed to others: chmod 600 it, or delete it to "
        "start with an empty store"));
  }
  TENSORD_ASSIGN_OR_RETURN(std::string key, ReadFile(path_));
  if (key.size() != kKeyBytes) {
    return absl::FailedPreconditionError(absl::StrCat(path_, " is not a key: delete it"));
  }
  identity_ = IdentityOf(info);
  key_ = std::move(key);
  return absl::OkStatus();
}

bool Signer::Refresh() {
  absl::MutexLock lock(&mutex_);
  struct stat info;
  if (stat(path_.c_str(), &info) == 0 && IdentityOf(info) == identity_) return false;
  const std::string before = key_;
  return Load().ok() && key_ != before;
}

std::string Signer::Sign(std::initializer_list<std::string_view> fields) const {
  // One-time look-ups of the algorithm; contexts are per call.
  static EVP_MAC* const hmac = EVP_MAC_fetch(nullptr, "HMAC", nullptr);
  std::string key;
  {
    absl::MutexLock lock(&mutex_);
    key = key_;
  }
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

}  // namespace tensord::store
