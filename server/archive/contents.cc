// SPDX-License-Identifier: Apache-2.0
#include "server/archive/contents.h"

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>

#include "base/sha256.h"
#include "server/fleet/folder_tier.h"

namespace tensord::archive {
namespace {

constexpr char kKind[] = "contents";
// Of a million manifests.
constexpr uint64_t kMostContents = 256 << 20;

}  // namespace

absl::Status WriteContents(TarWriter& writer, fleet::Keys& keys,
                           const v1::FleetContents& contents) {
  const std::string body = contents.SerializeAsString();
  if (body.size() > kMostContents) {
    return absl::ResourceExhaustedError("it is too much for one file: export it in several");
  }
  const fleet::Name name{kKind, Sha256(body)};
  return writer.Add(fleet::FolderPath(name.Path()), Seal(keys, name, body));
}

absl::StatusOr<v1::FleetContents> ReadContents(const TarReader& reader, fleet::Keys& keys) {
  const auto last = reader.entries().find(reader.last());
  if (last == reader.entries().end() || !absl::StartsWith(last->first, kKind)) {
    return absl::DataLossError("it does not end with a list of its contents");
  }
  if (last->second.bytes > kMostContents + fleet::kMostUnknownBytes) {
    return absl::DataLossError("the list of its contents is too large");
  }
  const size_t slash = last->first.rfind('/');
  const fleet::Name name{kKind, FromHex(last->first.substr(slash + 1))};
  TENSORD_ASSIGN_OR_RETURN(const std::string sealed, reader.Read(last->second, last->second.bytes));
  auto body = Open(keys, name, sealed);
  if (!body.ok()) {
    return absl::DataLossError(absl::StrCat("the list of its contents: ", body.status().message()));
  }
  v1::FleetContents contents;
  if (last->first != fleet::FolderPath(name.Path()) || !contents.ParseFromString(*body)) {
    return absl::DataLossError("the list of its contents is none");
  }
  return contents;
}

}  // namespace tensord::archive
