// SPDX-License-Identifier: Apache-2.0
// Files that were damaged, forged, or are of others: nothing of them enters a store.
#include <gmock/gmock.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <utility>

#include "server/archive/contents.h"
#include "server/archive/import.h"
#include "server/fleet/exchange.h"
#include "server/fleet/folder_tier.h"
#include "server/fleet/programs.h"
#include "server/frames/shared_frames.h"
#include "tests/unit/server/filled_store.h"

namespace tensord::archive {
namespace archive_refused_test {

using ::testing::HasSubstr;

using Contents = std::vector<std::pair<std::string, std::string>>;

class ArchiveRefusedTest : public FilledStoreTest {
 protected:
  void Write(const std::string& bytes) const { std::ofstream(file_) << bytes; }

  // Names and contents, in their order in the file.
  Contents Entries() const {
    const auto reader = TarReader::Open(file_);
    std::vector<std::pair<std::string, TarReader::Entry>> order(reader->entries().begin(),
                                                                reader->entries().end());
    std::sort(order.begin(), order.end(),
              [](const auto& a, const auto& b) { return a.second.offset < b.second.offset; });
    Contents entries;
    for (const auto& [name, entry] : order) {
      entries.emplace_back(name, *reader->Read(entry, entry.bytes));
    }
    return entries;
  }
  void WriteEntries(const Contents& entries) const {
    auto writer = TarWriter::Create(file_);
    for (const auto& [name, content] : entries) ASSERT_TRUE(writer->Add(name, content).ok());
    ASSERT_TRUE(writer->Finish().ok());
  }
  // The file of such manifests and blobs, with a list that a trusted key has signed.
  void WriteSigned(const std::vector<fleet::Object>& objects,
                   const std::function<void(v1::FleetContents&)>& change = {}) {
    auto writer = TarWriter::Create(file_);
    v1::FleetContents contents;
    contents.set_compiler_build(kBuild);
    contents.set_frame_format(kFrameFormat);
    for (const fleet::Object& object : objects) {
      ASSERT_TRUE(writer->Add(fleet::FolderPath(object.name), object.value).ok());
      if (object.name.rfind("blob/", 0) == 0) continue;
      contents.add_manifests()->set_name(object.name);
      contents.mutable_manifests()->rbegin()->set_sha256(Sha256(object.value));
    }
    if (change) change(contents);
    ASSERT_TRUE(WriteContents(*writer, *keys_, contents).ok());
    ASSERT_TRUE(writer->Finish().ok());
  }

  // Of an import into a store that must stay empty.
  absl::Status Refused(fleet::Keys& keys) {
    const auto store = OpenStore("empty");
    const auto imported = Import(*store, keys, kHost, file_);
    EXPECT_FALSE(imported.ok());
    const store::Verification found = store->Verify();
    EXPECT_EQ(found.programs + found.kernels + found.frames + found.blobs, 0u);
    return imported.status();
  }
  absl::Status Refused() { return Refused(*keys_); }
};

TEST_F(ArchiveRefusedTest, EveryByteCounts) {
  AddProgram("first", {"a"});
  AddFrame("code", "text");
  ExportAll(file_);
  const std::string sound = Bytes(file_);
  std::fstream file(file_, std::ios::in | std::ios::out | std::ios::binary);
  const auto put = [&](size_t at, int byte) {
    file.seekp(static_cast<std::streamoff>(at)).put(static_cast<char>(byte)).flush();
  };
  for (size_t at = 0; at < sound.size(); ++at) {
    put(at, sound[at] ^ (1 << at % 8));
    const auto found = CheckFile(*keys_, kHost, file_);
    ASSERT_TRUE(absl::IsDataLoss(found.status())) << at << ": " << found.status();
    put(at, sound[at]);
  }
  EXPECT_EQ(Bytes(file_), sound);
  EXPECT_TRUE(CheckFile(*keys_, kHost, file_).ok());
}

TEST_F(ArchiveRefusedTest, EveryLengthCounts) {
  AddProgram("first", {"a"});
  AddFrame("code", "text");
  ExportAll(file_);
  const std::string sound = Bytes(file_);
  for (size_t size = 0; size < sound.size(); size += 64) {
    Write(sound.substr(0, size));
    const auto found = CheckFile(*keys_, kHost, file_);
    ASSERT_TRUE(absl::IsDataLoss(found.status())) << size;
    EXPECT_THAT(std::string(found.status().message()), HasSubstr("cut short")) << size;
  }
  Write(sound + std::string(512, '\0'));
  EXPECT_THAT(std::string(CheckFile(*keys_, kHost, file_).status().message()),
              HasSubstr("behind its end"));
}

TEST_F(ArchiveRefusedTest, OnlyKeysThatAreListedCount) {
  Fill();
  ExportAll(file_);
  const std::string former = trust_ + ".former";
  std::filesystem::copy(trust_, former);
  // Rotated: the new key signs, both are accepted.
  AddKey("new");
  EXPECT_TRUE(CheckFile(*keys_, kHost, file_).ok());
  const auto new_keys = OpenKeys("new");
  EXPECT_TRUE(CheckFile(*new_keys, kHost, file_).ok());
  ASSERT_TRUE(Export(*store_, *new_keys, *SelectAll(*store_), kBuild, file_).ok());
  EXPECT_TRUE(CheckFile(*OpenKeys(""), kHost, file_).ok());
  // Who has not heard of it.
  auto others = fleet::Keys::Open("", former);
  const absl::Status unknown = Refused(**others);
  EXPECT_TRUE(absl::IsDataLoss(unknown));
  EXPECT_THAT(std::string(unknown.message()), HasSubstr("fleet_trust"));
  EXPECT_THAT(std::string(unknown.message()), HasSubstr(file_));
  // Struck off, without a restart.
  std::filesystem::copy(former, trust_, std::filesystem::copy_options::overwrite_existing);
  EXPECT_TRUE(absl::IsDataLoss(Refused(*keys_)));
}

TEST_F(ArchiveRefusedTest, RefusesForgeries) {
  Fill();
  ExportAll(file_);
  const auto sound = Entries();
  ASSERT_TRUE(fleet::Keys::Make(KeyPath("stranger"), "stranger").ok());
  const auto stranger = *fleet::Keys::Open(KeyPath("stranger"), "");
  // Another file of the same key: its list and its manifests are signed too.
  const auto same_name = SelectKeys(*store_, {AddFrame("code", "a third text")});
  ASSERT_TRUE(Export(*store_, *keys_, *same_name, kBuild, file_).ok());
  const auto another = Entries();
  const auto find = [](auto& entries, const std::string& kind) {
    return std::find_if(entries.begin(), entries.end(),
                        [&](const auto& entry) { return entry.first.rfind(kind, 0) == 0; });
  };
  struct Case {
    const char* what;
    const char* words;
    std::function<void(Contents&)> forge;
  };
  const Case cases[] = {
      {"a program taken off", "missing",
       [&](Contents& entries) { entries.erase(find(entries, "program/")); }},
      {"a blob taken off", "gone",
       [&](Contents& entries) { entries.erase(find(entries, "blob/")); }},
      {"no list", "list of its contents", [](Contents& entries) { entries.pop_back(); }},
      {"another file's list", "not the one that was listed",
       [&](Contents& entries) { entries.back() = another.back(); }},
      {"a stranger's list", "fleet_trust",
       [&](Contents& entries) {
         const std::string body = v1::FleetContents().SerializeAsString();
         entries.back().second = Seal(*stranger, {"contents", Sha256(body)}, body);
       }},
      {"a list under another name", "not what the key",
       [](Contents& entries) { entries.back().first.back() ^= 1; }},
      {"another manifest of that name", "not the one that was listed",
       [&](Contents& entries) {
         const auto other = find(another, "frames/");
         find(entries, other->first)->second = other->second;
       }},
      {"something added", "nothing that it lists needs",
       [](Contents& entries) {
         entries.insert(entries.begin(), {fleet::FolderPath("blob/" + ToHex(Sha256("x"))), "x"});
       }},
      {"something added that nobody knows", "nothing that it lists needs",
       [](Contents& entries) { entries.insert(entries.begin(), {"../../etc/passwd", "x"}); }},
      {"something twice", "twice",
       [](Contents& entries) { entries.insert(entries.begin(), entries[0]); }},
      {"the list first", "list of its contents",
       [](Contents& entries) { std::rotate(entries.begin(), entries.end() - 1, entries.end()); }},
      {"nothing", "list of its contents", [](Contents& entries) { entries.clear(); }},
  };
  for (const Case& one : cases) {
    auto entries = sound;
    one.forge(entries);
    WriteEntries(entries);
    const absl::Status refused = Refused();
    EXPECT_TRUE(absl::IsDataLoss(refused)) << one.what << ": " << refused;
    EXPECT_THAT(std::string(refused.message()), HasSubstr(one.words)) << one.what;
    EXPECT_THAT(std::string(refused.message()), HasSubstr(file_)) << one.what;
  }
  WriteEntries(sound);
  EXPECT_TRUE(CheckFile(*keys_, kHost, file_).ok()) << "what was written again is sound";
}

// What a trusted host could sign and never would.
TEST_F(ArchiveRefusedTest, RefusesWhatMakesNoSense) {
  Fill();
  fleet::Exchange packer(nullptr, keys_.get());
  const auto program = *fleet::PackProgram(*store_, Sha256("second"));
  const fleet::Name name = fleet::ProgramName(Sha256("second"));
  const std::vector<fleet::Object> objects = packer.PackParcel(name, program);
  WriteSigned(objects);
  ASSERT_TRUE(CheckFile(*keys_, kHost, file_).ok());

  fleet::Parcel incomplete = program;
  incomplete.blobs.pop_back();
  fleet::Parcel frames;
  const std::string frame = FrameOf("code", "text").SerializeAsString();
  frames.blobs.push_back({Sha256(frame), "", frame});
  const std::string malformed = FrameOf("", "text", kFrameFormat + 1).SerializeAsString();
  fleet::Parcel bad_frames;
  bad_frames.blobs.push_back({Sha256(malformed), "", malformed});
  const fleet::Name place = server::FramesName(
      server::PlaceOf(Sha256("code"), server::DigestOf(FrameOf("", "").environment())));

  struct Case {
    const char* what;
    std::vector<fleet::Object> objects;
    std::function<void(v1::FleetContents&)> change;
    bool sound;  // and of others
    const char* words;
  };
  const Case cases[] = {
      {"a program without a kernel", packer.PackParcel(name, incomplete), {}, false, "no binary"},
      {"a program that is none",
       packer.PackParcel(name, {"text", {}, true, 0}),
       {},
       false,
       "no program"},
      {"a frame of another place",
       packer.PackParcel({"frames", Sha256("place")}, frames),
       {},
       false,
       "another code"},
      {"a frame that is malformed", packer.PackParcel(place, bad_frames), {}, false, "format"},
      {"an unknown kind",
       packer.PackParcel({"kernels", Sha256("x")}, frames),
       {},
       false,
       "nobody knows"},
      {"a name that is none", objects,
       [](auto& contents) { contents.mutable_manifests(0)->set_name("program/../../key"); }, false,
       "no name"},
      {"another build", objects,
       [](auto& contents) { contents.set_compiler_build(Sha256("another")); }, true,
       "build of the compiler"},
      {"another format of frames", objects,
       [](auto& contents) { contents.set_frame_format(kFrameFormat + 1); }, true,
       "format of frames"},
  };
  for (const Case& one : cases) {
    WriteSigned(one.objects, one.change);
    const absl::Status refused = Refused();
    EXPECT_EQ(absl::IsDataLoss(refused), !one.sound) << one.what << ": " << refused;
    EXPECT_THAT(std::string(refused.message()), HasSubstr(one.words)) << one.what;
  }
}

TEST_F(ArchiveRefusedTest, ProgramsOfAnotherToolchainWouldNeverBeFound) {
  Fill();
  ExportAll(file_);
  const auto check = [&](const absl::StatusOr<std::string>& own) {
    const Host host{kBuild, [&](const std::string& target) {
                      EXPECT_EQ(target, "cpu avx2");
                      return own;
                    }};
    return CheckFile(*keys_, host, file_).status();
  };
  EXPECT_TRUE(check("cxx 1 | flags").ok());
  EXPECT_TRUE(check(absl::FailedPreconditionError("no compiler")).ok()) << "it is not known";
  const absl::Status other = check("cxx 2 | flags");
  EXPECT_TRUE(absl::IsFailedPrecondition(other));
  for (const char* words : {"cpu avx2", "cxx 1", "cxx 2", "--any-toolchain"}) {
    EXPECT_THAT(std::string(other.message()), HasSubstr(words));
  }
  EXPECT_TRUE(absl::IsFailedPrecondition(check("cxx 1 | other flags")));
}

TEST_F(ArchiveRefusedTest, SaysThatItIsNoExport) {
  for (const std::string& text : {std::string(5000, 'x'), std::string("short"), std::string()}) {
    Write(text);
    EXPECT_TRUE(absl::IsDataLoss(Refused())) << text.size();
  }
  std::filesystem::remove(file_);
  EXPECT_TRUE(absl::IsNotFound(Refused()));
  std::filesystem::create_directory(file_);
  EXPECT_THAT(std::string(Refused().message()), HasSubstr("no plain file"));
}

}  // namespace archive_refused_test
}  // namespace tensord::archive
