// SPDX-License-Identifier: Apache-2.0
#include "server/fleet/packed.h"

#include <absl/strings/str_cat.h>
#include <zstd.h>

#include "base/check.h"
#include "base/sha256.h"

namespace tensord::fleet {
namespace {

// A kernel's binary shrinks to a third in a few milliseconds; higher levels gain little.
constexpr int kLevel = 3;

absl::Status CheckBlob(const v1::FleetBlob& blob, uint64_t* total) {
  if (blob.sha256().size() != kSha256Bytes || blob.stored_sha256().size() != kSha256Bytes) {
    return absl::DataLossError("a blob of the manifest has no digest");
  }
  if (blob.bytes() > kMostBlobBytes || blob.stored_bytes() > ZSTD_compressBound(kMostBlobBytes)) {
    return absl::DataLossError(absl::StrCat("a blob of the manifest has ", blob.bytes(), " bytes, ",
                                            blob.stored_bytes(), " of them stored"));
  }
  *total += blob.bytes();
  if (*total > kMostParcelBytes) {
    return absl::DataLossError("the manifest's blobs are too large together");
  }
  return absl::OkStatus();
}

}  // namespace

std::string Pack(std::string_view content, v1::FleetBlob* blob) {
  std::string stored(ZSTD_compressBound(content.size()), '\0');
  const size_t size =
      ZSTD_compress(stored.data(), stored.size(), content.data(), content.size(), kLevel);
  TENSORD_CHECK(!ZSTD_isError(size), ZSTD_getErrorName(size));
  stored.resize(size);
  blob->set_sha256(Sha256(content));
  blob->set_bytes(content.size());
  blob->set_stored_sha256(Sha256(stored));
  blob->set_stored_bytes(stored.size());
  return stored;
}

absl::StatusOr<std::string> Unpack(std::string_view stored, const v1::FleetBlob& blob) {
  if (stored.size() != blob.stored_bytes() || Sha256(stored) != blob.stored_sha256()) {
    return absl::DataLossError("a blob does not have its digest");
  }
  if (blob.bytes() > kMostBlobBytes) return absl::DataLossError("a blob is too large");
  std::string content(blob.bytes(), '\0');
  const size_t size = ZSTD_decompress(content.data(), content.size(), stored.data(), stored.size());
  if (ZSTD_isError(size) || size != content.size() || Sha256(content) != blob.sha256()) {
    return absl::DataLossError("a blob does not hold what its manifest says");
  }
  return content;
}

absl::Status CheckSizes(const v1::FleetManifest& manifest) {
  uint64_t total = 0;
  if (manifest.has_content()) TENSORD_RETURN_IF_ERROR(CheckBlob(manifest.content(), &total));
  for (const v1::FleetBlob& blob : manifest.blobs()) {
    TENSORD_RETURN_IF_ERROR(CheckBlob(blob, &total));
  }
  return absl::OkStatus();
}

}  // namespace tensord::fleet
