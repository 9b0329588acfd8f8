// SPDX-License-Identifier: Apache-2.0
#include "server/fleet/kernels.h"

#include <absl/synchronization/blocking_counter.h>

#include <algorithm>
#include <utility>

#include "base/sha256.h"
#include "tensord/v1/artifact.pb.h"

namespace tensord::fleet {
namespace {

// So that programs and frames, which others wait for, are not behind hundreds of kernels.
constexpr size_t kAtOnce = 16;

absl::Status TakeKernel(store::Store& store, const std::string& key, const Parcel& parcel) {
  TENSORD_ASSIGN_OR_RETURN(const v1::FleetKernel kernel, ReadKernel(key, parcel));
  return PutKernel(store, kernel, parcel.blobs[0]);
}

}  // namespace

Name KernelName(const std::string& key) { return {"kernel", key}; }

Exchange::Has IsStored(store::Store* store) {
  return [store](const std::string& sha256) { return store->ReadBlob(sha256).ok(); };
}

absl::Status PutKernel(store::Store& store, const v1::FleetKernel& kernel, const Blob& blob) {
  absl::StatusOr<std::string> own;
  if (!blob.bytes.has_value()) own = store.ReadBlob(kernel.sha256());
  if (!blob.bytes.has_value() && !own.ok()) return absl::NotFoundError("a blob has gone");
  store.PutKernel(kernel.key(), blob.bytes.has_value() ? *blob.bytes : *own, kernel.source(),
                  kernel.facts());
  return absl::OkStatus();
}

absl::StatusOr<v1::FleetKernel> ReadKernel(const std::string& key, const Parcel& parcel) {
  if (!parcel.complete) return absl::NotFoundError("a kernel's binary has gone");
  v1::FleetKernel kernel;
  if (!parcel.content.has_value() || !kernel.ParseFromString(*parcel.content)) {
    return absl::DataLossError("it is no kernel");
  }
  if (kernel.key() != key || parcel.blobs.size() != 1 ||
      parcel.blobs[0].sha256 != kernel.sha256()) {
    return absl::DataLossError("it is another kernel, or has another binary");
  }
  if (v1::Module module; !module.ParseFromString(kernel.facts())) {
    return absl::DataLossError("what it says of the kernel is no module");
  }
  return kernel;
}

void FetchKernels(Fleet& fleet, store::Store* store, const std::vector<std::string>& keys,
                  absl::Duration answer, const Around& around) {
  const absl::Time until = absl::Now() + answer;
  for (size_t at = 0; at < keys.size() && absl::Now() < until; at += kAtOnce) {
    const size_t end = std::min(keys.size(), at + kAtOnce);
    absl::BlockingCounter left(static_cast<int>(end - at));
    for (size_t i = at; i < end; ++i) {
      Fleet::Query query;
      query.name = KernelName(keys[i]);
      query.answer = until - absl::Now();
      query.has = IsStored(store);
      query.take = [store, key = keys[i]](const Parcel& parcel) {
        return TakeKernel(*store, key, parcel);
      };
      query.around = around;
      fleet.Find(std::move(query), [&left](const absl::Status&) { left.DecrementCount(); });
    }
    left.Wait();
  }
}

Parcel::Part KernelPart(const v1::FleetKernel& kernel) {
  return {KernelName(kernel.key()), kernel.SerializeAsString(), kernel.sha256()};
}

}  // namespace tensord::fleet
