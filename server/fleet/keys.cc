// SPDX-License-Identifier: Apache-2.0
#include "server/fleet/keys.h"

#include <absl/cleanup/cleanup.h>
#include <absl/strings/ascii.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/private_file.h"
#include "base/sha256.h"

namespace tensord::fleet {
namespace {

constexpr size_t kPublicBytes = 32;

using KeyPtr = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;

const unsigned char* Bytes(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

std::string IdOf(std::string_view public_key) { return Sha256(public_key).substr(0, kKeyIdBytes); }

std::string PublicOf(const EVP_PKEY* key) {
  std::string bytes(kPublicBytes, '\0');
  size_t size = bytes.size();
  const int got =
      EVP_PKEY_get_raw_public_key(key, reinterpret_cast<unsigned char*>(bytes.data()), &size);
  TENSORD_CHECK(got == 1 && size == kPublicBytes);
  return bytes;
}

absl::StatusOr<KeyPtr> ReadPrivate(const std::string& path) {
  const absl::Status is_private = CheckPrivateFile(path);
  if (absl::IsNotFound(is_private)) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot read fleet_sign_key ", path, ": make one with tensorctl fleet-key"));
  }
  TENSORD_RETURN_IF_ERROR(is_private);
  std::FILE* file = std::fopen(path.c_str(), "re");
  if (file == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat("cannot read fleet_sign_key ", path));
  }
  const absl::Cleanup close = [file] { std::fclose(file); };
  KeyPtr key(PEM_read_PrivateKey(file, nullptr, nullptr, nullptr), &EVP_PKEY_free);
  if (key == nullptr || EVP_PKEY_get_id(key.get()) != EVP_PKEY_ED25519) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, " is no private Ed25519 key in PEM: make one with tensorctl fleet-key"));
  }
  return key;
}

std::string TrustLine(const std::string& name, const std::string& public_key) {
  return absl::StrCat(name, " ", ToHex(public_key));
}

}  // namespace

struct Keys::Private {
  KeyPtr key;
  std::string id;
};

Keys::Keys(std::string sign_path, std::string trust_path)
    : sign_path_(std::move(sign_path)), trust_path_(std::move(trust_path)) {}

absl::StatusOr<std::unique_ptr<Keys>> Keys::Open(std::string sign_path, std::string trust_path) {
  if (sign_path.empty() && trust_path.empty()) {
    return absl::FailedPreconditionError(
        "a fleet needs fleet_trust, the keys that are accepted, or fleet_sign_key, or both");
  }
  auto keys = std::unique_ptr<Keys>(new Keys(std::move(sign_path), std::move(trust_path)));
  absl::MutexLock lock(&keys->mutex_);
  TENSORD_RETURN_IF_ERROR(keys->Load());
  return keys;
}

absl::Status Keys::Load() {
  // Before they are read: a change meanwhile is one to read again for.
  sign_identity_ = store::IdentityAt(sign_path_);
  trust_identity_ = store::IdentityAt(trust_path_);
  // Each by itself: a key that is struck off is so whether there is one to sign with or not.
  const absl::Status trust = LoadTrust(), signer = LoadSigner();
  if (trust.ok() || signer.ok()) return trust.ok() ? signer : trust;
  return absl::FailedPreconditionError(absl::StrCat(trust.message(), "; ", signer.message()));
}

absl::Status Keys::LoadTrust() {
  if (trust_path_.empty()) return absl::OkStatus();
  const auto text = store::ReadFile(trust_path_);
  if (!text.ok()) {
    return absl::FailedPreconditionError(absl::StrCat("fleet_trust: ", text.status().message()));
  }
  std::map<std::string, Public> trusted;
  int number = 0;
  for (const std::string& line : std::vector<std::string>(absl::StrSplit(*text, '\n'))) {
    ++number;
    const std::string content = line.substr(0, line.find('#'));
    const std::vector<std::string> words =
        absl::StrSplit(content, absl::ByAnyChar(" \t\r"), absl::SkipEmpty());
    if (words.empty()) continue;
    const std::string key = words.size() == 2 ? FromHex(words[1]) : "";
    if (key.size() != kPublicBytes) {
      return absl::FailedPreconditionError(
          absl::StrCat(trust_path_, ":", number, ": a name and 64 hex digits are needed"));
    }
    trusted[IdOf(key)] = {words[0], key};
  }
  trusted_ = std::move(trusted);
  return absl::OkStatus();
}

absl::Status Keys::LoadSigner() {
  if (sign_path_.empty()) return absl::OkStatus();
  TENSORD_ASSIGN_OR_RETURN(KeyPtr key, ReadPrivate(sign_path_));
  const std::string public_key = PublicOf(key.get());
  private_ = std::make_shared<Private>(Private{std::move(key), IdOf(public_key)});
  if (trust_path_.empty()) trusted_ = {{private_->id, {"own", public_key}}};
  return absl::OkStatus();
}

void Keys::Refresh() {
  if (store::IdentityAt(sign_path_) == sign_identity_ &&
      store::IdentityAt(trust_path_) == trust_identity_) {
    return;
  }
  const absl::Status loaded = Load();
  problem_ = loaded.ok() ? "" : std::string(loaded.message());
}

std::string Keys::Problem() {
  absl::MutexLock lock(&mutex_);
  Refresh();
  return problem_;
}

std::string Keys::Sign(std::string_view message) {
  std::shared_ptr<const Private> signer;
  {
    absl::MutexLock lock(&mutex_);
    Refresh();
    signer = private_;
  }
  TENSORD_CHECK(signer != nullptr, "a host without a key signs nothing");
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  const absl::Cleanup release = [context] { EVP_MD_CTX_free(context); };
  std::string signature(kSignatureBytes, '\0');
  size_t size = signature.size();
  TENSORD_CHECK(EVP_DigestSignInit(context, nullptr, nullptr, nullptr, signer->key.get()) == 1 &&
                EVP_DigestSign(context, reinterpret_cast<unsigned char*>(signature.data()), &size,
                               Bytes(message), message.size()) == 1);
  return signer->id + signature;
}

absl::StatusOr<std::string> Keys::Verify(std::string_view message, std::string_view signature) {
  if (signature.size() != kKeyIdBytes + kSignatureBytes) {
    return absl::PermissionDeniedError("the signature is cut short");
  }
  Public trusted;
  {
    absl::MutexLock lock(&mutex_);
    Refresh();
    const auto found = trusted_.find(std::string(signature.substr(0, kKeyIdBytes)));
    if (found == trusted_.end()) {
      return absl::PermissionDeniedError("it is signed with a key that fleet_trust does not list");
    }
    trusted = found->second;
  }
  const KeyPtr key(EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, nullptr, Bytes(trusted.key),
                                               trusted.key.size()),
                   &EVP_PKEY_free);
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  const absl::Cleanup release = [context] { EVP_MD_CTX_free(context); };
  const std::string_view bytes = signature.substr(kKeyIdBytes);
  if (key == nullptr || EVP_DigestVerifyInit(context, nullptr, nullptr, nullptr, key.get()) != 1 ||
      EVP_DigestVerify(context, Bytes(bytes), bytes.size(), Bytes(message), message.size()) != 1) {
    return absl::PermissionDeniedError(
        absl::StrCat("it is not what the key '", trusted.name, "' signed"));
  }
  return trusted.name;
}

absl::StatusOr<std::string> Keys::Make(const std::string& path, const std::string& name) {
  if (name.empty() || name.find_first_of(" \t\r\n#") != std::string::npos) {
    return absl::InvalidArgumentError("a key's name has no spaces and no #");
  }
  const KeyPtr key(EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519"), &EVP_PKEY_free);
  TENSORD_CHECK(key != nullptr);
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot create ", path));
  std::FILE* file = fdopen(fd, "w");
  TENSORD_CHECK(file != nullptr);
  const bool written =
      PEM_write_PrivateKey(file, key.get(), nullptr, nullptr, 0, nullptr, nullptr) == 1 &&
      std::fflush(file) == 0 && fsync(fd) == 0;
  const int error = errno;
  std::fclose(file);
  if (!written) {
    unlink(path.c_str());
    return absl::ErrnoToStatus(error, absl::StrCat("cannot write ", path));
  }
  return TrustLine(name, PublicOf(key.get()));
}

}  // namespace tensord::fleet
