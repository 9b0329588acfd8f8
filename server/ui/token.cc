// SPDX-License-Identifier: Apache-2.0
#include "server/ui/token.h"

#include <openssl/crypto.h>
#include <openssl/rand.h>

#include "base/check.h"
#include "base/sha256.h"

namespace tensord::server {

std::string MakeToken() {
  std::string bytes(kSha256Bytes, '\0');
  TENSORD_CHECK(RAND_bytes(reinterpret_cast<unsigned char*>(bytes.data()),
                           static_cast<int>(bytes.size())) == 1);
  return ToHex(bytes);
}

bool Brings(std::string_view authorization, std::string_view token) {
  constexpr std::string_view kScheme = "Bearer ";
  if (!authorization.starts_with(kScheme)) return false;
  authorization.remove_prefix(kScheme.size());
  return authorization.size() == token.size() &&
         CRYPTO_memcmp(authorization.data(), token.data(), token.size()) == 0;
}

}  // namespace tensord::server
