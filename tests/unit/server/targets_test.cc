// SPDX-License-Identifier: Apache-2.0
#include "server/ahead/targets.h"

#include <gmock/gmock.h>

#include "base/sha256.h"
#include "tests/unit/server/testing.h"

namespace tensord::server {
namespace targets_test {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;

v1::Target Gpu(uint32_t multiprocessors = 132) {
  v1::Target target;
  v1::CudaTarget& cuda = *target.mutable_cuda();
  cuda.set_sm(90);
  cuda.set_multiprocessors(multiprocessors);
  cuda.set_shared_bytes_per_block(227 << 10);
  cuda.set_l2_bytes(50 << 20);
  cuda.set_registers_per_multiprocessor(65536);
  return target;
}

v1::Target Cpu() {
  v1::Target target;
  target.mutable_cpu()->set_isa(v1::ISA_AVX512);
  target.mutable_cpu()->set_l1_bytes(48 << 10);
  target.mutable_cpu()->set_l2_bytes(2 << 20);
  return target;
}

std::string Message(const absl::Status& status) { return std::string(status.message()); }

class TargetsTest : public ServerTest {};

TEST_F(TargetsTest, ANameHasTheArchitectureAndStandsForAllOfIt) {
  EXPECT_THAT(TargetName(Gpu()), MatchesRegex("sm_90-[0-9a-f]{8}"));
  EXPECT_THAT(TargetName(Cpu()), MatchesRegex("avx512-[0-9a-f]{8}"));
  EXPECT_EQ(TargetName(Gpu()), TargetName(Gpu()));
  EXPECT_NE(TargetName(Gpu()), TargetName(Gpu(114)));
}

TEST_F(TargetsTest, AFileIsTheTargetToTheLastByte) {
  for (const v1::Target& target : {Gpu(), Cpu()}) {
    const auto read = ReadTarget(TargetText(target), "file");
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(read->SerializeAsString(), target.SerializeAsString());
    EXPECT_THAT(TargetText(target), HasSubstr(TargetName(target)));
  }
}

TEST_F(TargetsTest, AFieldThatIsMissingIsNamed) {
  const auto bare = ReadTarget("cuda { sm: 90 }", "sm_90.target");
  EXPECT_TRUE(absl::IsInvalidArgument(bare.status()));
  EXPECT_THAT(Message(bare.status()), HasSubstr("sm_90.target: it has no cuda.multiprocessors"));
  EXPECT_THAT(Message(ReadTarget("cpu { isa: ISA_AVX2 l1_bytes: 1 }", "f").status()),
              HasSubstr("cpu.l2_bytes"));
  EXPECT_THAT(Message(ReadTarget("# nothing", "f").status()), HasSubstr("neither cpu nor cuda"));
  const auto wrong = ReadTarget("cuda {\n  sm: 90\n  warps: 4\n}", "f");
  EXPECT_THAT(Message(wrong.status()), HasSubstr("f: line 3: "));
  EXPECT_THAT(Message(wrong.status()), HasSubstr("warps"));
}

TEST_F(TargetsTest, IsFoundByItsNameOrByTheArchitectureAlone) {
  SeenTargets seen;
  seen.Add(Gpu());
  seen.Add(Cpu());
  seen.Add(Gpu());
  for (const std::string& name :
       {TargetName(Gpu()), TargetName(Gpu()).substr(0, 8), std::string("sm_90")}) {
    const auto found = seen.Find(name);
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_EQ(found->SerializeAsString(), Gpu().SerializeAsString());
  }
  ASSERT_EQ(seen.List().size(), 2u);
  EXPECT_EQ(seen.List()[0].programs, 2u);
  EXPECT_TRUE(seen.List()[0].target.has_cuda());
}

TEST_F(TargetsTest, ANameThatIsNotOneTargetSaysWhatToDo) {
  SeenTargets seen;
  seen.Add(Gpu());
  for (const char* name : {"sm_9", "sm_80", "sm_90-zz", "h200", ""}) {
    const auto none = seen.Find(name);
    EXPECT_TRUE(absl::IsNotFound(none.status())) << name;
    EXPECT_THAT(Message(none.status()), HasSubstr("tensorctl targets NAME -o FILE"));
  }
  seen.Add(Gpu(114));
  const auto several = seen.Find("sm_90");
  EXPECT_TRUE(absl::IsFailedPrecondition(several.status()));
  EXPECT_THAT(Message(several.status()), HasSubstr(TargetName(Gpu())));
  EXPECT_THAT(Message(several.status()), HasSubstr(TargetName(Gpu(114))));
  EXPECT_TRUE(seen.Find(TargetName(Gpu())).ok());
}

TEST_F(TargetsTest, AFileMayBeGivenInsteadOfAName) {
  const std::string file = folder_ + "/gpu";
  std::ofstream(file) << TargetText(Gpu());
  const SeenTargets none;
  const auto read = none.FindOrRead(file);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->SerializeAsString(), Gpu().SerializeAsString());
  EXPECT_THAT(Message(none.FindOrRead(folder_ + "/absent").status()), HasSubstr("/absent"));
}

TEST_F(TargetsTest, AStoreSaysForWhatItsProgramsAre) {
  const auto store = store::Store::Open({folder_ + "/store"});
  ASSERT_TRUE(store.ok()) << store.status();
  for (const v1::Target& target : {Gpu(), Cpu()}) {
    v1::Artifact artifact;
    *artifact.mutable_target() = target;
    store::Record record;
    record.payload = artifact.SerializeAsString();
    ASSERT_TRUE((*store)->Publish(Sha256(TargetName(target)), record, "", {}).ok());
  }
  SeenTargets seen;
  ASSERT_TRUE(seen.AddStored(**store).ok());
  EXPECT_EQ(seen.List().size(), 2u);
  EXPECT_TRUE(seen.Find("sm_90").ok());
  EXPECT_TRUE(seen.Find("avx512").ok());
}

}  // namespace targets_test
}  // namespace tensord::server
