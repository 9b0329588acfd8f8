// SPDX-License-Identifier: Apache-2.0
// SHA-256 (FIPS 180-4), by OpenSSL.
#ifndef TENSORD_BASE_SHA256_H_
#define TENSORD_BASE_SHA256_H_

#include <memory>
#include <string>
#include <string_view>

namespace tensord {

inline constexpr size_t kSha256Bytes = 32;

// The digest of `data`: 32 bytes.
std::string Sha256(std::string_view data);

// Hashes fields with their lengths, so that ("ab","c") and ("a","bc") differ.
class Sha256Fields {
 public:
  Sha256Fields();
  ~Sha256Fields();
  Sha256Fields& Add(std::string_view field);
  std::string Finish();

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

std::string ToHex(std::string_view bytes);
// The bytes of a hex string; empty when `hex` is not one.
std::string FromHex(std::string_view hex);

}  // namespace tensord

#endif  // TENSORD_BASE_SHA256_H_
