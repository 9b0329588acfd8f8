// SPDX-License-Identifier: Apache-2.0
#include "server/fleet/sealed.h"

#include "base/sha256.h"
#include "base/version.h"
#include "server/store/signer.h"

namespace tensord::fleet {
namespace {

constexpr size_t kHead = kFleetMagic.size() + kKeyIdBytes + kSignatureBytes;

std::string Message(const Name& name, std::string_view body) {
  std::string message;
  for (const std::string_view field :
       {kFleetMagic, std::string_view(name.kind), std::string_view(name.key), body}) {
    store::AppendU64(message, field.size());
    message += field;
  }
  return message;
}

}  // namespace

std::string Name::Path() const { return absl::StrCat(kind, "/", ToHex(key)); }

std::string Seal(Keys& keys, const Name& name, std::string_view body) {
  return std::string(kFleetMagic).append(keys.Sign(Message(name, body))).append(body);
}

absl::StatusOr<std::string> Open(Keys& keys, const Name& name, std::string_view sealed) {
  if (sealed.size() < kHead || sealed.substr(0, kFleetMagic.size()) != kFleetMagic) {
    return absl::DataLossError("it is not sealed in this format");
  }
  const std::string_view body = sealed.substr(kHead);
  const auto signer = keys.Verify(Message(name, body),
                                  sealed.substr(kFleetMagic.size(), kKeyIdBytes + kSignatureBytes));
  if (!signer.ok()) return absl::DataLossError(signer.status().message());
  return std::string(body);
}

}  // namespace tensord::fleet
