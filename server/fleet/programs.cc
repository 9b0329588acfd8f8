// SPDX-License-Identifier: Apache-2.0
#include "server/fleet/programs.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/sha256.h"
#include "server/fleet/kernels.h"
#include "tensord/v1/artifact.pb.h"
#include "tensord/v1/fleet.pb.h"

namespace tensord::fleet {
namespace {

// DataLoss: the artifact and what came with it do not belong together.
absl::Status CheckModules(const v1::Artifact& artifact, const v1::FleetProgram& program) {
  std::map<std::string, const v1::FleetKernel*> kernels;
  for (const v1::FleetKernel& kernel : program.kernels()) kernels[kernel.key()] = &kernel;
  for (const v1::Module& module : artifact.modules()) {
    const auto kernel = kernels.find(module.kernel_key());
    if (module.kernel_key().size() != kSha256Bytes || kernel == kernels.end() ||
        kernel->second->sha256() != module.sha256()) {
      return absl::DataLossError("the program lacks a kernel that its artifact names");
    }
  }
  return absl::OkStatus();
}

// A program that has all that it names, as it came.
struct WholeProgram {
  v1::FleetProgram program;
  v1::Artifact artifact;
  std::map<std::string, const Blob*> blobs;  // by digest
};

absl::StatusOr<WholeProgram> ReadParcel(const Parcel& parcel) {
  if (!parcel.complete) return absl::NotFoundError("a kernel's binary has gone");
  WholeProgram whole;
  if (!parcel.content.has_value() || !whole.program.ParseFromString(*parcel.content) ||
      !whole.artifact.ParseFromString(whole.program.payload())) {
    return absl::DataLossError("it is no program");
  }
  TENSORD_RETURN_IF_ERROR(CheckModules(whole.artifact, whole.program));
  for (const Blob& blob : parcel.blobs) whole.blobs[blob.sha256] = &blob;
  for (const v1::FleetKernel& kernel : whole.program.kernels()) {
    if (kernel.key().size() != kSha256Bytes || whole.blobs.count(kernel.sha256()) == 0) {
      return absl::DataLossError("a kernel of the program has no binary");
    }
  }
  return whole;
}

}  // namespace

Name ProgramName(const std::string& key) { return {"program", key}; }

absl::StatusOr<Parcel> PackProgram(store::Store& store, const std::string& key,
                                   const std::vector<std::string>& separate) {
  TENSORD_ASSIGN_OR_RETURN(const auto record, store.Peek(key));
  v1::FleetProgram program;
  program.set_payload(record->payload);
  program.set_facts(record->facts);
  TENSORD_ASSIGN_OR_RETURN(*program.mutable_detail(), store.Detail(key));
  v1::Artifact artifact;
  if (!artifact.ParseFromString(record->payload)) return absl::DataLossError("it is no artifact");
  Parcel parcel;
  std::set<std::string> kernels, blobs;
  for (const v1::Module& module : artifact.modules()) {
    if (!kernels.insert(module.kernel_key()).second) continue;
    const auto row = store.FindKernel(module.kernel_key());
    if (!row.has_value() || row->sha256 != module.sha256()) {
      return absl::NotFoundError("a kernel of the program has gone");
    }
    v1::FleetKernel& kernel = *program.add_kernels();
    kernel.set_key(module.kernel_key());
    kernel.set_sha256(module.sha256());
    kernel.set_facts(row->facts);
    kernel.set_source(store.KernelSource(module.kernel_key()).value_or(""));
    if (std::find(separate.begin(), separate.end(), kernel.key()) != separate.end()) {
      parcel.parts.push_back(KernelPart(kernel));
    }
    if (!blobs.insert(module.sha256()).second) continue;
    TENSORD_ASSIGN_OR_RETURN(std::string binary, store.ReadBlob(module.sha256()));
    parcel.blobs.push_back({module.sha256(), "", std::move(binary)});
  }
  parcel.content = program.SerializeAsString();
  return parcel;
}

absl::Status CheckProgram(const Parcel& parcel) { return ReadParcel(parcel).status(); }

absl::Status TakeProgram(store::Store& store, const std::string& key, const Parcel& parcel) {
  TENSORD_ASSIGN_OR_RETURN(const WholeProgram whole, ReadParcel(parcel));
  for (const v1::FleetKernel& kernel : whole.program.kernels()) {
    if (const auto row = store.FindKernel(kernel.key());
        row.has_value() && row->sha256 == kernel.sha256()) {
      continue;
    }
    TENSORD_RETURN_IF_ERROR(PutKernel(store, kernel, *whole.blobs.at(kernel.sha256())));
  }
  store::Record record;
  for (const v1::Module& module : whole.artifact.modules()) {
    record.blobs.push_back(module.sha256());
  }
  record.payload = whole.program.payload();
  return store.Publish(key, std::move(record), whole.program.detail(),
                       store::DecodeProgramFacts(whole.program.facts()));
}

Fleet::Query ProgramQuery(store::Store* store, const std::string& key) {
  Fleet::Query query;
  query.name = ProgramName(key);
  query.has = IsStored(store);
  query.take = [store, key](const Parcel& parcel) { return TakeProgram(*store, key, parcel); };
  query.lease = query.name;
  return query;
}

void PutProgram(Fleet& fleet, store::Store* store, const std::string& key,
                std::vector<std::string> separate) {
  fleet.Put(ProgramName(key), [store, key, separate = std::move(separate)] {
    return PackProgram(*store, key, separate);
  });
}

}  // namespace tensord::fleet
