// SPDX-License-Identifier: Apache-2.0
#include "server/fleet/exchange.h"

#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/time/clock.h>
#include <openssl/rand.h>

#include <utility>

#include "base/check.h"
#include "base/sha256.h"

namespace tensord::fleet {
namespace {

constexpr double kLeastBytesPerSecond = 4 << 20;
constexpr char kLease[] = "lease";

Wanted BlobWanted(const v1::FleetBlob& blob) {
  return {Name{"blob", blob.stored_sha256()}.Path(), blob.stored_bytes()};
}

// A lease is signed, so that a server that only says that others are at work delays nobody.
Name LeaseOf(const Name& name) {
  return {kLease, Sha256Fields().Add(name.kind).Add(name.key).Finish()};
}

// "until random": no two leases are equal.
std::string NewToken(absl::Time until) {
  unsigned char random[16];
  TENSORD_CHECK(RAND_bytes(random, sizeof random) == 1);
  return absl::StrCat(absl::ToUnixMillis(until), " ",
                      ToHex({reinterpret_cast<char*>(random), sizeof random}));
}

bool IsOver(const std::string& token) {
  int64_t until = 0;
  return !absl::SimpleAtoi(token.substr(0, token.find(' ')), &until) ||
         absl::FromUnixMillis(until) < absl::Now();
}

Object ManifestObject(Keys& keys, const Name& name, const v1::FleetManifest& manifest) {
  Object object{name.Path(), Seal(keys, name, manifest.SerializeAsString())};
  if (manifest.has_content()) object.needs.push_back(BlobWanted(manifest.content()));
  for (const v1::FleetBlob& blob : manifest.blobs()) object.needs.push_back(BlobWanted(blob));
  return object;
}

}  // namespace

absl::Duration TransferTime(uint64_t bytes) {
  return absl::Seconds(static_cast<double>(bytes) / kLeastBytesPerSecond);
}

absl::StatusOr<v1::FleetManifest> Exchange::GetManifest(const Name& name, absl::Time deadline) {
  TENSORD_ASSIGN_OR_RETURN(auto got, tier_->Get({{name.Path()}}, deadline));
  if (got.size() != 1) return absl::UnavailableError("the tier gave another number of objects");
  if (!got[0].has_value()) return absl::NotFoundError("it is not there");
  bytes_in_ += got[0]->size();
  if (got[0]->size() > kMostUnknownBytes) return absl::DataLossError("the manifest is too large");
  TENSORD_ASSIGN_OR_RETURN(const std::string body, Open(*keys_, name, *got[0]));
  v1::FleetManifest manifest;
  if (!manifest.ParseFromString(body)) return absl::DataLossError("it is no manifest");
  TENSORD_RETURN_IF_ERROR(CheckSizes(manifest));
  return manifest;
}

absl::StatusOr<Parcel> Exchange::GetParcel(const v1::FleetManifest& manifest, const Has& has,
                                           absl::Time deadline) {
  std::vector<const v1::FleetBlob*> blobs;  // to fetch; the content first
  if (manifest.has_content()) blobs.push_back(&manifest.content());
  Parcel parcel;
  for (const v1::FleetBlob& blob : manifest.blobs()) {
    if (has && has(blob.sha256())) {
      parcel.blobs.push_back({blob.sha256(), blob.note(), std::nullopt});
    } else {
      blobs.push_back(&blob);
    }
  }
  if (blobs.empty()) return parcel;
  std::vector<Wanted> wanted;
  for (const v1::FleetBlob* blob : blobs) wanted.push_back(BlobWanted(*blob));
  TENSORD_ASSIGN_OR_RETURN(auto got, tier_->Get(wanted, deadline));
  if (got.size() != blobs.size()) {
    return absl::UnavailableError("the tier gave another number of objects");
  }
  for (size_t i = 0; i < blobs.size(); ++i) {
    absl::StatusOr<std::string> bytes = absl::NotFoundError("a blob has gone");
    if (got[i].has_value()) {
      bytes_in_ += got[i]->size();
      bytes = Unpack(*got[i], *blobs[i]);
      got[i].reset();
    }
    const bool is_content = i == 0 && manifest.has_content();
    if (is_content) {
      TENSORD_ASSIGN_OR_RETURN(parcel.content, std::move(bytes));
    } else if (bytes.ok()) {
      parcel.blobs.push_back({blobs[i]->sha256(), blobs[i]->note(), *std::move(bytes)});
    } else {
      parcel.complete = false;
      parcel.refused += absl::IsDataLoss(bytes.status());
    }
  }
  return parcel;
}

std::vector<Object> Exchange::PackParcel(const Name& name, const Parcel& parcel) {
  std::vector<Object> objects;
  v1::FleetManifest manifest;
  const auto add = [&](std::string_view bytes, v1::FleetBlob* blob) {
    std::string stored = Pack(bytes, blob);
    objects.push_back({BlobWanted(*blob).name, std::move(stored)});
  };
  if (parcel.content.has_value()) add(*parcel.content, manifest.mutable_content());
  for (const Blob& blob : parcel.blobs) {
    v1::FleetBlob* const packed = manifest.add_blobs();
    TENSORD_CHECK(blob.bytes.has_value());
    add(*blob.bytes, packed);
    packed->set_note(blob.note);
  }
  for (const Parcel::Part& part : parcel.parts) {
    const auto blob =
        std::find_if(manifest.blobs().begin(), manifest.blobs().end(),
                     [&](const v1::FleetBlob& packed) { return packed.sha256() == part.blob; });
    TENSORD_CHECK(blob != manifest.blobs().end());
    v1::FleetManifest of_part;
    add(part.content, of_part.mutable_content());
    *of_part.add_blobs() = *blob;
    objects.push_back(ManifestObject(*keys_, part.name, of_part));
  }
  objects.push_back(ManifestObject(*keys_, name, manifest));
  return objects;
}

std::vector<Object> Exchange::PackMore(const Name& name, v1::FleetManifest manifest,
                                       const Blob& blob, int most) {
  auto& blobs = *manifest.mutable_blobs();
  for (int i = 0; i < blobs.size(); ++i) {
    if (blobs[i].sha256() != blob.sha256) continue;
    blobs.DeleteSubrange(i, 1);
    break;
  }
  if (blobs.size() >= most) blobs.DeleteSubrange(0, blobs.size() - most + 1);
  TENSORD_CHECK(blob.bytes.has_value());
  v1::FleetBlob* const added = manifest.add_blobs();
  std::string stored = Pack(*blob.bytes, added);
  added->set_note(blob.note);
  return {{BlobWanted(*added).name, std::move(stored)}, ManifestObject(*keys_, name, manifest)};
}

absl::Status Exchange::Put(const std::vector<Object>& objects, absl::Time deadline) {
  if (!objects.empty() && objects.back().value.size() > kMostUnknownBytes) {
    return absl::FailedPreconditionError("it has more blobs than a manifest may name");
  }
  TENSORD_RETURN_IF_ERROR(tier_->Put(objects, deadline));
  for (const Object& object : objects) bytes_out_ += object.value.size();
  return absl::OkStatus();
}

absl::StatusOr<std::optional<std::string>> Exchange::Claim(const Name& name,
                                                           absl::Duration lifetime,
                                                           absl::Time deadline,
                                                           std::string* holder) {
  const Name lease = LeaseOf(name);
  const std::string token = Seal(*keys_, lease, NewToken(absl::Now() + lifetime));
  TENSORD_ASSIGN_OR_RETURN(const std::string there,
                           tier_->Claim(lease.Path(), token, lifetime, deadline));
  if (there == token) return token;
  const auto held = Open(*keys_, lease, there);
  // What nobody of the fleet has signed holds nobody back, nor does a lease whose host died.
  if (!held.ok() || IsOver(*held)) return token;
  if (holder != nullptr) *holder = there;
  return std::optional<std::string>();
}

absl::Status Exchange::Release(const Name& name, const std::string& token, absl::Time deadline) {
  return tier_->Release(LeaseOf(name).Path(), token, deadline);
}

}  // namespace tensord::fleet
