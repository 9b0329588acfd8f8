// SPDX-License-Identifier: Apache-2.0
#include "server/archive/export.h"

#include <absl/strings/str_cat.h>
#include <google/protobuf/arena.h>

#include <utility>

#include "base/sha256.h"
#include "base/version.h"
#include "server/archive/contents.h"
#include "server/fleet/exchange.h"
#include "server/fleet/folder_tier.h"
#include "server/fleet/packed.h"
#include "server/fleet/programs.h"
#include "server/frames/frame_place.h"
#include "server/frames/shared_frames.h"
#include "server/jobs/job_lists.h"
#include "tensord/v1/requests.pb.h"

namespace tensord::archive {
namespace {

void AddFrame(const store::FrameRow& row, Selection& selection) {
  selection.frames[server::PlaceOf(row.facts.code, row.facts.environment)].insert(row.key);
}

bool IsOfAnotherFormat(const std::string& bytes) {
  google::protobuf::Arena arena;
  auto& frame = *google::protobuf::Arena::CreateMessage<v1::Frame>(&arena);
  return frame.ParseFromString(bytes) && frame.environment().format() != kFrameFormat;
}

class Exporter {
 public:
  Exporter(store::Store& store, fleet::Keys& keys, std::string compiler_build, TarWriter writer)
      : store_(store),
        keys_(keys),
        packer_(nullptr, &keys),
        compiler_build_(std::move(compiler_build)),
        writer_(std::move(writer)) {
    contents_.set_version(Version());
    contents_.set_compiler_build(compiler_build_);
    contents_.set_frame_format(kFrameFormat);
  }

  absl::Status AddProgram(const std::string& key) {
    const fleet::Name name = fleet::ProgramName(key);
    v1::ProgramDetail detail;
    if (const auto text = store_.Detail(key);
        text.ok() && detail.ParseFromString(*text) && detail.compiler_build() != compiler_build_) {
      ++exported_.of_others;
      return absl::OkStatus();
    }
    const auto parcel = fleet::PackProgram(store_, key);
    const absl::Status sound = parcel.ok() ? fleet::CheckProgram(*parcel) : parcel.status();
    if (!sound.ok()) {
      LeaveOut(name, sound);
      return absl::OkStatus();
    }
    TENSORD_ASSIGN_OR_RETURN(const bool added, Add(name, *parcel));
    if (!added) return absl::OkStatus();
    ++exported_.programs;
    const auto record = store_.Peek(key);
    if (record.ok()) {
      toolchains_.insert({store::DecodeProgramFacts((*record)->facts).target, detail.toolchain()});
    }
    return absl::OkStatus();
  }

  absl::Status AddFrames(const std::string& place, const std::set<std::string>& keys) {
    const fleet::Name name = server::FramesName(place);
    fleet::Parcel parcel;
    uint64_t bytes = 0;
    for (const std::string& key : keys) {
      auto blob = server::PackFrame(store_, key);
      if (blob.ok() && IsOfAnotherFormat(*blob->bytes)) {
        ++exported_.of_others;
        continue;
      }
      absl::Status sound = blob.status();
      if (sound.ok()) sound = server::CheckSharedFrame(name, *blob, server::kMostFrameBytes);
      if (sound.ok() && bytes + blob->bytes->size() > fleet::kMostParcelBytes) {
        sound = absl::ResourceExhaustedError("frames of one code are too large together");
      }
      if (!sound.ok()) {
        LeaveOut({"frame", key}, sound);
        continue;
      }
      bytes += blob->bytes->size();
      parcel.blobs.push_back(*std::move(blob));
    }
    if (parcel.blobs.empty()) return absl::OkStatus();
    TENSORD_ASSIGN_OR_RETURN(const bool added, Add(name, parcel));
    if (added) exported_.frames += parcel.blobs.size();
    return absl::OkStatus();
  }

  absl::StatusOr<Exported> Finish() {
    if (contents_.manifests().empty()) {
      return absl::FailedPreconditionError(
          exported_.of_others == 0 ? "there is nothing to export"
                                   : "there is nothing to export: all of it is of other builds of "
                                     "tensord, whose own tensorctl exports it");
    }
    exported_.toolchains.assign(toolchains_.begin(), toolchains_.end());
    for (const Toolchain& toolchain : toolchains_) {
      v1::FleetToolchain& listed = *contents_.add_toolchains();
      listed.set_target(toolchain.target);
      listed.set_id(toolchain.id);
    }
    TENSORD_RETURN_IF_ERROR(WriteContents(writer_, keys_, contents_));
    TENSORD_RETURN_IF_ERROR(writer_.Finish());
    exported_.bytes = writer_.bytes();
    return std::move(exported_);
  }

 private:
  void LeaveOut(const fleet::Name& name, const absl::Status& why) {
    exported_.left_out.push_back(absl::StrCat(name.Path(), ": ", why.message()));
  }

  // False: it is left out.
  absl::StatusOr<bool> Add(const fleet::Name& name, const fleet::Parcel& parcel) {
    const std::vector<fleet::Object> objects = packer_.PackParcel(name, parcel);
    const fleet::Object& manifest = objects.back();
    uint64_t bytes = parcel.content.has_value() ? parcel.content->size() : 0;
    for (const fleet::Blob& blob : parcel.blobs) bytes += blob.bytes->size();
    if (manifest.value.size() > fleet::kMostUnknownBytes || bytes > fleet::kMostParcelBytes) {
      LeaveOut(name, absl::ResourceExhaustedError("it is too large"));
      return false;
    }
    for (const fleet::Object& object : objects) {
      if (!written_.insert(object.name).second) continue;  // a kernel of several programs
      TENSORD_RETURN_IF_ERROR(writer_.Add(fleet::FolderPath(object.name), object.value));
    }
    v1::FleetListing& listing = *contents_.add_manifests();
    listing.set_name(manifest.name);
    listing.set_sha256(Sha256(manifest.value));
    return true;
  }

  store::Store& store_;
  fleet::Keys& keys_;
  fleet::Exchange packer_;  // of no tier
  const std::string compiler_build_;
  TarWriter writer_;
  v1::FleetContents contents_;
  std::set<std::string> written_;
  std::set<Toolchain> toolchains_;
  Exported exported_;
};

}  // namespace

absl::StatusOr<Selection> SelectAll(store::Store& store) {
  // A record that the index does not know is exported too.
  store.Reconcile();
  Selection selection;
  TENSORD_ASSIGN_OR_RETURN(const auto programs, store.List(0));
  for (const store::ProgramRow& row : programs) selection.programs.insert(row.key);
  TENSORD_ASSIGN_OR_RETURN(const auto frames, store.ListFrames(0));
  for (const store::FrameRow& row : frames) AddFrame(row, selection);
  return selection;
}

absl::StatusOr<Selection> SelectJob(store::Store& store, const std::string& job) {
  TENSORD_ASSIGN_OR_RETURN(const v1::JobList list, server::ReadJobList(store, job));
  if (list.used().empty()) {
    return absl::NotFoundError(absl::StrCat("the store knows nothing that job '", job, "' used"));
  }
  std::set<std::string> names;
  for (const v1::JobUse& use : list.used()) names.insert(use.name());
  TENSORD_ASSIGN_OR_RETURN(Selection selection, SelectAll(store));
  std::erase_if(selection.programs, [&](const std::string& key) {
    return names.count(fleet::ProgramName(key).Path()) == 0;
  });
  std::erase_if(selection.frames, [&](const auto& frames) {
    return names.count(server::FramesName(frames.first).Path()) == 0;
  });
  return selection;
}

absl::StatusOr<Selection> SelectKeys(store::Store& store,
                                     const std::vector<std::string>& prefixes) {
  Selection selection;
  for (const std::string& prefix : prefixes) {
    const auto program = store.Find(prefix);
    const auto frame = store.FindFrame(prefix);
    const std::string shown = ToHex(prefix);
    if (program.ok() && frame.ok()) {
      return absl::FailedPreconditionError(
          absl::StrCat("a program and a frame begin with ", shown, ": give more of it"));
    }
    if (program.ok()) {
      selection.programs.insert(program->key);
    } else if (frame.ok()) {
      AddFrame(*frame, selection);
    } else {
      const bool several = absl::IsFailedPrecondition(program.status());
      const absl::Status& why = several ? program.status() : frame.status();
      return absl::Status(why.code(), absl::IsNotFound(why)
                                          ? absl::StrCat("no program or frame has the key ", shown)
                                          : absl::StrCat(shown, ": ", why.message()));
    }
  }
  return selection;
}

absl::StatusOr<Exported> Export(store::Store& store, fleet::Keys& keys, const Selection& selection,
                                const std::string& compiler_build, const std::string& path) {
  if (!keys.CanSign()) {
    return absl::FailedPreconditionError(
        "an export is signed: set fleet_sign_key (tensorctl fleet-key makes one)");
  }
  TENSORD_ASSIGN_OR_RETURN(TarWriter writer, TarWriter::Create(path));
  Exporter exporter(store, keys, compiler_build, std::move(writer));
  for (const std::string& key : selection.programs) {
    TENSORD_RETURN_IF_ERROR(exporter.AddProgram(key));
  }
  for (const auto& [place, frames] : selection.frames) {
    TENSORD_RETURN_IF_ERROR(exporter.AddFrames(place, frames));
  }
  return exporter.Finish();
}

}  // namespace tensord::archive
