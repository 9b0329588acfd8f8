// SPDX-License-Identifier: Apache-2.0
// A store as a file and back.
#include <gmock/gmock.h>

#include <cstdlib>

#include "server/archive/export.h"
#include "server/archive/import.h"
#include "server/fleet/exchange.h"
#include "server/fleet/folder_tier.h"
#include "server/fleet/programs.h"
#include "tests/unit/server/filled_store.h"

namespace tensord::archive {
namespace archive_test {

using ::testing::HasSubstr;

class ArchiveTest : public FilledStoreTest {};

TEST_F(ArchiveTest, BringsAStoreToAnother) {
  Fill();
  const Exported exported = ExportAll(file_);
  EXPECT_EQ(exported.programs, 2u);
  EXPECT_EQ(exported.frames, 3u);
  EXPECT_THAT(exported.toolchains, ::testing::ElementsAre(Toolchain{"cpu avx2", "cxx 1 | flags"}));
  EXPECT_EQ(exported.bytes, std::filesystem::file_size(file_));

  const auto other = OpenStore("two");
  const auto reader = OpenKeys("");  // has no key of its own
  const auto imported = Import(*other, *reader, kHost, file_);
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_EQ(imported->programs, 2u);
  EXPECT_EQ(imported->frames, 3u);
  EXPECT_THAT(imported->toolchains, ::testing::ElementsAre(Toolchain{"cpu avx2", "cxx 1 | flags"}));
  const store::Verification found = other->Verify();
  EXPECT_EQ(found.programs, 2u);
  EXPECT_EQ(found.kernels, 3u);
  EXPECT_EQ(found.blobs, 3u);
  EXPECT_EQ(found.frames, 3u);
  const auto program = other->Lookup(Sha256("first"));
  ASSERT_TRUE(program.ok());
  EXPECT_EQ((*program)->payload, (*store_->Lookup(Sha256("first")))->payload);
  EXPECT_EQ(*other->Detail(Sha256("first")), *store_->Detail(Sha256("first")));
  EXPECT_EQ(*other->KernelSource(Sha256("key of c")), "source of c");
  EXPECT_EQ(other->FindKernel(Sha256("key of c"))->facts, "facts of c");
  EXPECT_EQ(other->List(0)->front().facts.compile_nanoseconds, 7u);
  const std::string environment = server::DigestOf(FrameOf("code", "").environment());
  EXPECT_EQ(other->FramesOf(Sha256("code"), environment, {}).size(), 2u);
  EXPECT_THAT(other->CodesBehind(Sha256("before code"), environment, 9),
              ::testing::ElementsAre(Sha256("code")));

  const auto again = Import(*other, *reader, kHost, file_);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->programs + again->frames, 0u);
  EXPECT_EQ(again->stored_before, 5u);

  const auto checked = CheckFile(*reader, kHost, file_);
  ASSERT_TRUE(checked.ok()) << checked.status();
  EXPECT_EQ(checked->programs, 2u);
  EXPECT_EQ(checked->frames, 3u);
}

TEST_F(ArchiveTest, ADamagedProgramIsMended) {
  Fill();
  ExportAll(file_);
  const auto other = OpenStore("two");
  ASSERT_TRUE(Import(*other, *keys_, kHost, file_).ok());
  const std::string hex = ToHex(Sha256("binary of b"));
  std::filesystem::remove(other->blob_folder() + "/" + hex.substr(0, 2) + "/" + hex);
  // With the first of the two that need the blob the second is whole again.
  EXPECT_EQ(Import(*other, *keys_, kHost, file_)->programs, 1u);
  EXPECT_TRUE(other->Lookup(Sha256("first")).ok());
  EXPECT_TRUE(other->Lookup(Sha256("second")).ok());
}

TEST_F(ArchiveTest, EqualStoresGiveEqualFiles) {
  Fill();
  ExportAll(file_);
  ExportAll(folder_ + "/again.tar");
  EXPECT_EQ(Bytes(file_), Bytes(folder_ + "/again.tar"));
  auto other = OpenStore("two");
  ASSERT_TRUE(Import(*other, *keys_, kHost, file_).ok());
  store_ = std::move(other);
  ExportAll(folder_ + "/other.tar");
  EXPECT_EQ(Bytes(file_), Bytes(folder_ + "/other.tar"));
}

// Unpacked, the file is a folder tier.
TEST_F(ArchiveTest, IsAFolderTierInTar) {
  Fill();
  ExportAll(file_);
  const std::string shared = folder_ + "/shared";
  std::filesystem::create_directories(shared);
  ASSERT_EQ(std::system(("tar -xf " + file_ + " -C " + shared).c_str()), 0);
  const auto tier = fleet::MakeFolderTier(shared);
  fleet::Exchange exchange(tier.get(), keys_.get());
  const auto manifest =
      exchange.GetManifest(fleet::ProgramName(Sha256("first")), absl::InfiniteFuture());
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  const auto parcel = exchange.GetParcel(*manifest, nullptr, absl::InfiniteFuture());
  EXPECT_TRUE(fleet::CheckProgram(*parcel).ok());
}

TEST_F(ArchiveTest, ExportsWhatIsNamed) {
  Fill();
  const std::string frame = AddFrame("third code", "text");
  const auto selection = SelectKeys(*store_, {Sha256("second").substr(0, 6), frame.substr(0, 6)});
  ASSERT_TRUE(selection.ok()) << selection.status();
  const auto exported = Export(*store_, *keys_, *selection, kBuild, file_);
  EXPECT_EQ(exported->programs, 1u);
  EXPECT_EQ(exported->frames, 1u);
  const auto other = OpenStore("two");
  ASSERT_TRUE(Import(*other, *keys_, kHost, file_).ok());
  EXPECT_TRUE(other->Lookup(Sha256("second")).ok());
  EXPECT_FALSE(other->Lookup(Sha256("first")).ok());
  EXPECT_TRUE(other->PeekFrame(frame).ok());
  const auto unknown = SelectKeys(*store_, {"none"});
  EXPECT_TRUE(absl::IsNotFound(unknown.status()));
  EXPECT_THAT(std::string(unknown.status().message()), HasSubstr(ToHex("none")));
}

TEST_F(ArchiveTest, WhatIsOfOthersOrDamagedIsLeftOut) {
  AddProgram("first", {"a"});
  AddProgram("of another build", {"b"}, Sha256("another build"));
  AddProgram("of a build that did not say", {"b"}, "");
  AddProgram("damaged", {"c"});
  AddFrame("code", "text", kFrameFormat - 1);
  const std::string hex = ToHex(Sha256("binary of c"));
  std::filesystem::remove(store_->blob_folder() + "/" + hex.substr(0, 2) + "/" + hex);
  const Exported exported = ExportAll(file_);
  EXPECT_EQ(exported.programs, 1u);
  EXPECT_EQ(exported.frames, 0u);
  EXPECT_EQ(exported.of_others, 3u);
  ASSERT_EQ(exported.left_out.size(), 1u);
  EXPECT_THAT(exported.left_out[0], HasSubstr(ToHex(Sha256("damaged"))));
  EXPECT_TRUE(CheckFile(*keys_, kHost, file_).ok());
}

TEST_F(ArchiveTest, WhatCannotBeExportedLeavesNoFile) {
  Selection none;
  const auto nothing = Export(*store_, *keys_, none, kBuild, file_);
  EXPECT_TRUE(absl::IsFailedPrecondition(nothing.status()));
  AddProgram("first", {"a"}, Sha256("another build"));
  const auto others = Export(*store_, *keys_, *SelectAll(*store_), kBuild, file_);
  EXPECT_THAT(std::string(others.status().message()), HasSubstr("other builds"));
  const auto reader = OpenKeys("");
  const auto unsigned_ = Export(*store_, *reader, *SelectAll(*store_), kBuild, file_);
  EXPECT_THAT(std::string(unsigned_.status().message()), HasSubstr("fleet_sign_key"));
  EXPECT_FALSE(Export(*store_, *keys_, none, kBuild, folder_ + "/none/file").ok());
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
    EXPECT_THAT(entry.path().string(), ::testing::Not(HasSubstr("export.tar")));
  }
}

// Kept in memory it would be gone with the process.
TEST_F(ArchiveTest, AStoreThatTakesNothingIsSaid) {
  Fill();
  ExportAll(file_);
  const auto full = OpenStore("full", /*limit_bytes=*/1);
  const auto imported = Import(*full, *keys_, kHost, file_);
  EXPECT_TRUE(absl::IsResourceExhausted(imported.status())) << imported.status();
  EXPECT_THAT(std::string(imported.status().message()), HasSubstr("store_limit"));
}

}  // namespace archive_test
}  // namespace tensord::archive
