// SPDX-License-Identifier: Apache-2.0
// The store's kernels: each a signed record with its source, and the blob that it names.
#include "base/sha256.h"
#include "server/store/store.h"

namespace tensord::store {

std::optional<KernelRow> Store::FindKernel(std::string_view kernel_key) {
  std::optional<KernelRow> row;
  if (const auto record = FindSound(kernels_, kernel_key);
      record.ok() && (*record)->blobs.size() == 1) {
    const std::string& sha256 = (*record)->blobs[0];
    absl::MutexLock lock(&files_mutex_);
    row = {sha256, blobs_.Verify(sha256).value_or(0), (*record)->payload};
  }
  if (row.has_value()) {
    index_.With([&](Index& index) { return index.TouchKernel(kernel_key, options_.now_ms()); })
        .IgnoreError();
    return row;
  }
  if (const auto kernel = memory_.FindKernel(kernel_key)) return kernel->row;
  return std::nullopt;
}

KernelRow Store::PutKernel(std::string_view kernel_key, std::string_view binary,
                           std::string_view source, std::string_view facts) {
  KernelRow row{Sha256(binary), binary.size(), std::string(facts)};
  const absl::Status written = WriteKernel(kernel_key, row, binary, source);
  if (!written.ok()) {
    SetProblem(written);
    memory_.PutKernel(kernel_key, {row, std::string(binary), std::string(source)});
  }
  return row;
}

absl::Status Store::WriteKernel(std::string_view kernel_key, const KernelRow& row,
                                std::string_view binary, std::string_view source) {
  TENSORD_RETURN_IF_ERROR(MakeRoom(binary.size() + source.size() + 2 * kFileOverhead));
  bool there = false;
  {
    absl::MutexLock lock(&files_mutex_);
    RefreshKey();
    there = blobs_.Verify(row.sha256).ok();
  }
  if (!there) TENSORD_RETURN_IF_ERROR(blobs_.Put(row.sha256, binary));
  TENSORD_RETURN_IF_ERROR(kernels_.Put(kernel_key, {{row.sha256}, row.facts, ""}, source));
  const Index::Kernel made = RowOfKernel(kernel_key, row.sha256, options_.now_ms());
  // A record that the index could not take is added when it is reconciled, which is soon.
  if (!index_.With([&](Index& index) { return index.AddKernels({made}); }).ok()) index_.Lacks();
  return absl::OkStatus();
}

absl::StatusOr<std::string> Store::KernelSource(std::string_view kernel_key) {
  if (const auto kernel = memory_.FindKernel(kernel_key)) return kernel->source;
  absl::MutexLock lock(&files_mutex_);
  return kernels_.GetDetail(kernel_key);
}

}  // namespace tensord::store
