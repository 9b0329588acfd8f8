// SPDX-License-Identifier: Apache-2.0
#include "base/sha256.h"

#include <absl/strings/escaping.h>
#include <openssl/evp.h>

#include <algorithm>
#include <cctype>
#include <cstdint>

#include "base/check.h"

namespace tensord {

struct Sha256Fields::Context {
  EVP_MD_CTX* handle = EVP_MD_CTX_new();
  ~Context() { EVP_MD_CTX_free(handle); }
};

Sha256Fields::Sha256Fields() : context_(std::make_unique<Context>()) {
  TENSORD_CHECK(EVP_DigestInit_ex(context_->handle, EVP_sha256(), nullptr) == 1);
}

Sha256Fields::~Sha256Fields() = default;

Sha256Fields& Sha256Fields::Add(std::string_view field) {
  const uint64_t size = field.size();
  char prefix[8];
  for (int i = 0; i < 8; ++i) prefix[i] = static_cast<char>(size >> (8 * i));
  EVP_DigestUpdate(context_->handle, prefix, sizeof prefix);
  EVP_DigestUpdate(context_->handle, field.data(), field.size());
  return *this;
}

std::string Sha256Fields::Finish() {
  std::string digest(kSha256Bytes, '\0');
  unsigned size = 0;
  TENSORD_CHECK(EVP_DigestFinal_ex(context_->handle,
                                   reinterpret_cast<unsigned char*>(digest.data()), &size) == 1);
  return digest;
}

std::string Sha256(std::string_view data) {
  std::string digest(kSha256Bytes, '\0');
  unsigned size = 0;
  TENSORD_CHECK(EVP_Digest(data.data(), data.size(),
                           reinterpret_cast<unsigned char*>(digest.data()), &size, EVP_sha256(),
                           nullptr) == 1);
  return digest;
}

std::string ToHex(std::string_view bytes) {
  return absl::BytesToHexString(absl::string_view(bytes.data(), bytes.size()));
}

std::string FromHex(std::string_view hex) {
  if (hex.size() % 2 != 0 ||
      !std::all_of(hex.begin(), hex.end(), [](unsigned char c) { return std::isxdigit(c) != 0; })) {
    return "";
  }
  return absl::HexStringToBytes(absl::string_view(hex.data(), hex.size()));
}

}  // namespace tensord
