// SPDX-License-Identifier: Apache-2.0
// A signed text that belongs to one kind and key:
//
//   magic (8 bytes; the last is the format) | key's id | signature of (magic, kind, key, body) |
//   body
//
// One that was changed, cut short, or put under another kind or key does not open.
#ifndef TENSORD_SERVER_FLEET_SEALED_H_
#define TENSORD_SERVER_FLEET_SEALED_H_

#include <string>
#include <string_view>

#include "base/status.h"
#include "server/fleet/keys.h"

namespace tensord::fleet {

// Under what something lies in a tier. The kind is a word, the key has 32 bytes.
struct Name {
  std::string kind;
  std::string key;

  // "kind/<hex of the key>": the name of a tier's object.
  std::string Path() const;
};

std::string Seal(Keys& keys, const Name& name, std::string_view body);
// The body. DataLoss: it is not sealed, in another format, or not signed for this name by a key
// that is accepted.
absl::StatusOr<std::string> Open(Keys& keys, const Name& name, std::string_view sealed);

}  // namespace tensord::fleet

#endif  // TENSORD_SERVER_FLEET_SEALED_H_
