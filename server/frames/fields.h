// SPDX-License-Identifier: Apache-2.0
// Checks of a message's fields that say which field is at fault: "graphs[1].forward.inputs[2]:
// ...".
#ifndef TENSORD_SERVER_FRAMES_FIELDS_H_
#define TENSORD_SERVER_FRAMES_FIELDS_H_

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/string_view.h>

#include <cstdint>
#include <string>

#include "base/sha256.h"
#include "base/status.h"

namespace tensord::server {

template <class... Parts>
absl::Status BadField(absl::string_view field, const Parts&... what) {
  return absl::InvalidArgumentError(absl::StrCat(field, ": ", what...));
}

// A status about a field of the message that `field` holds.
inline absl::Status Within(absl::string_view field, const absl::Status& status) {
  if (status.ok()) return status;
  return absl::InvalidArgumentError(absl::StrCat(field, ".", status.message()));
}

// check(item) of each item. It may say "" for the item itself: "name[3]: ...".
template <class List, class Check>
absl::Status CheckEach(absl::string_view field, const List& items, const Check& check) {
  for (int i = 0; i < items.size(); ++i) {
    if (const absl::Status status = check(items[i]); !status.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat(field, "[", i, "]", absl::StartsWith(status.message(), ": ") ? "" : ".",
                       status.message()));
    }
  }
  return absl::OkStatus();
}

inline absl::Status CheckDigest(absl::string_view field, const std::string& digest) {
  if (digest.size() == kSha256Bytes) return absl::OkStatus();
  return BadField(field, "a digest has 32 bytes, this has ", digest.size());
}

inline absl::Status CheckNotEmpty(absl::string_view field, const std::string& text) {
  return text.empty() ? BadField(field, "it is missing") : absl::OkStatus();
}

// Of a list that says something of each of `count` things, or of none.
inline absl::Status CheckCount(absl::string_view field, int size, uint64_t count,
                               absl::string_view things) {
  if (size == 0 || static_cast<uint64_t>(size) == count) return absl::OkStatus();
  return BadField(field, size, " entries for ", count, " ", things);
}

// A number that begins with 0.
inline absl::Status CheckBelow(absl::string_view field, uint64_t number, uint64_t count,
                               absl::string_view things) {
  if (number < count) return absl::OkStatus();
  return BadField(field, number, " is past the ", count, " ", things);
}

// A number plus one, which is needed.
inline absl::Status CheckReference(absl::string_view field, uint64_t number, uint64_t count,
                                   absl::string_view things) {
  if (number == 0) return BadField(field, "it is missing");
  if (number <= count) return absl::OkStatus();
  return BadField(field, number, " is past the ", count, " ", things);
}

// A number plus one, or 0 for none.
inline absl::Status CheckOptional(absl::string_view field, uint64_t number, uint64_t count,
                                  absl::string_view things) {
  return number == 0 ? absl::OkStatus() : CheckReference(field, number, count, things);
}

}  // namespace tensord::server

#endif  // TENSORD_SERVER_FRAMES_FIELDS_H_
