// SPDX-License-Identifier: Apache-2.0
// A store with programs and frames that nobody compiled or captured.
#ifndef TENSORD_TESTS_UNIT_SERVER_FILLED_STORE_H_
#define TENSORD_TESTS_UNIT_SERVER_FILLED_STORE_H_

#include <memory>
#include <string>
#include <vector>

#include "base/version.h"
#include "server/archive/export.h"
#include "server/archive/import.h"
#include "server/frames/frame_place.h"
#include "server/store/store.h"
#include "tensord/v1/artifact.pb.h"
#include "tensord/v1/frame.pb.h"
#include "tensord/v1/requests.pb.h"
#include "tests/unit/server/fleet_testing.h"

namespace tensord::archive {

inline const std::string kBuild = Sha256("a build");

inline const Host kHost{kBuild, nullptr};

class FilledStoreTest : public fleet::FleetFolderTest {
 protected:
  FilledStoreTest() : file_(folder_ + "/export.tar"), store_(OpenStore("one")), keys_(OpenKeys()) {}

  std::unique_ptr<store::Store> OpenStore(const std::string& name, uint64_t limit_bytes = 0) {
    store::StoreOptions options;
    options.root = folder_ + "/" + name;
    options.limit_bytes = limit_bytes;
    auto store = store::Store::Open(options);
    EXPECT_TRUE(store.ok()) << store.status();
    return *std::move(store);
  }

  // A program of such kernels, each of which is its name. Returns its key.
  std::string AddProgram(const std::string& name, const std::vector<std::string>& kernels,
                         const std::string& build = kBuild) {
    v1::Artifact artifact;
    store::Record record;
    for (const std::string& kernel : kernels) {
      const auto row = store_->PutKernel(Sha256("key of " + kernel), "binary of " + kernel,
                                         "source of " + kernel, "facts of " + kernel);
      v1::Module& module = *artifact.add_modules();
      module.set_kernel_key(Sha256("key of " + kernel));
      module.set_sha256(row.sha256);
      record.blobs.push_back(row.sha256);
    }
    record.payload = artifact.SerializeAsString();
    v1::ProgramDetail detail;
    detail.set_compiler_build(build);
    detail.set_toolchain("cxx 1 | flags");
    detail.add_fusion_notes("a note");
    store::ProgramFacts facts;
    facts.label = name;
    facts.target = "cpu avx2";
    facts.compile_nanoseconds = 7;
    EXPECT_TRUE(store_->Publish(Sha256(name), record, detail.SerializeAsString(), facts).ok());
    return Sha256(name);
  }

  static v1::Frame FrameOf(const std::string& code, const std::string& text,
                           uint32_t format = kFrameFormat) {
    v1::Frame frame;
    frame.mutable_environment()->set_format(format);
    frame.mutable_environment()->set_python("3.11.2");
    frame.mutable_environment()->set_torch("2.13.0");
    frame.mutable_environment()->set_options(Sha256("options"));
    frame.mutable_code()->set_digest(Sha256(code));
    frame.mutable_code()->set_qualified_name(code);
    frame.mutable_result()->mutable_code()->set_bytecode(text);
    frame.mutable_result()->mutable_code()->set_name(code);
    return frame;
  }
  // Returns its key.
  std::string AddFrame(const std::string& code, const std::string& text,
                       uint32_t format = kFrameFormat) {
    const v1::Frame frame = FrameOf(code, text, format);
    const std::string bytes = frame.SerializeAsString();
    EXPECT_TRUE(
        store_->PutFrame(Sha256(bytes), bytes, server::FactsOf(frame, Sha256("before " + code)))
            .ok());
    return Sha256(bytes);
  }
  void Fill() {
    AddProgram("first", {"a", "b", "a"});
    AddProgram("second", {"b", "c"});
    AddFrame("code", "text");
    AddFrame("code", "another text");
    AddFrame("other code", "text");
  }

  Exported ExportAll(const std::string& path) {
    const auto selection = SelectAll(*store_);
    EXPECT_TRUE(selection.ok()) << selection.status();
    auto exported = Export(*store_, *keys_, *selection, kBuild, path);
    EXPECT_TRUE(exported.ok()) << exported.status();
    return exported.ok() ? *exported : Exported();
  }
  static std::string Bytes(const std::string& path) { return *store::ReadFile(path); }

  const std::string file_;  // of an export
  std::unique_ptr<store::Store> store_;
  std::unique_ptr<fleet::Keys> keys_;
};

}  // namespace tensord::archive

#endif  // TENSORD_TESTS_UNIT_SERVER_FILLED_STORE_H_
