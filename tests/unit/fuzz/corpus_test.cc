// SPDX-License-Identifier: Apache-2.0
// Every input that fuzzing keeps, through its target: seeds, and what was once a finding. An input
// for which something does not hold ends the program; the test's name says which it was.
#include <google/protobuf/stubs/logging.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/fuzz/targets/mutate_message.h"
#include "tests/fuzz/targets/target.h"

namespace tensord::fuzz {
namespace {

namespace fs = std::filesystem;

struct Input {
  const Target* target;
  fs::path path;
};
void PrintTo(const Input& input, std::ostream* out) { *out << input.path; }

std::vector<Input> Inputs() {
  std::vector<Input> inputs;
  for (const Target* target : {&kRequestTarget, &kGraphTarget, &kRecordTarget, &kArtifactTarget,
                               &kWorkerTarget, &kFrameTarget, &kArchiveTarget, &kProfileTarget}) {
    const fs::path folder = fs::path(TENSORD_FUZZ_CORPUS) / target->name;
    for (const auto& entry : fs::directory_iterator(folder)) {
      inputs.push_back({target, entry.path()});
    }
  }
  std::sort(inputs.begin(), inputs.end(),
            [](const Input& a, const Input& b) { return a.path < b.path; });
  return inputs;
}

std::string Read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class Corpus : public ::testing::TestWithParam<Input> {};

TEST_P(Corpus, Holds) {
  const google::protobuf::LogSilencer silencer;
  GetParam().target->run(Read(GetParam().path));
}

// A few steps from it, the same in each run: what a change breaks near to what is known. More with
// $TENSORD_FUZZ_TURNS.
TEST_P(Corpus, HoldsNearby) {
  const google::protobuf::LogSilencer silencer;
  const Target& target = *GetParam().target;
  if (target.message == nullptr || target.framed) GTEST_SKIP() << "it is no message";
  const std::unique_ptr<google::protobuf::Message> message(target.message()->New());
  const std::string input = Read(GetParam().path);
  const char* const turns = std::getenv("TENSORD_FUZZ_TURNS");
  std::mt19937 random(1);
  for (int left = turns != nullptr ? std::atoi(turns) : 20; left > 0; --left) {
    if (left % 4 == 0 && !message->ParseFromString(input)) return;
    if (target.mutate != nullptr && random() % 2 == 0) {
      target.mutate(message.get(), random);
    } else {
      MutateMessage(message.get(), random);
    }
    target.run(message->SerializePartialAsString());
  }
}

INSTANTIATE_TEST_SUITE_P(All, Corpus, ::testing::ValuesIn(Inputs()), [](const auto& info) {
  std::string name = std::string(info.param.target->name) + "_" + info.param.path.stem().string();
  std::replace_if(name.begin(), name.end(), [](char c) { return !isalnum(c); }, '_');
  return name;
});

// Each target has some.
TEST(Corpora, AreThere) {
  for (const Target* target : {&kRequestTarget, &kGraphTarget, &kRecordTarget, &kArtifactTarget,
                               &kWorkerTarget, &kFrameTarget, &kProfileTarget}) {
    EXPECT_FALSE(fs::is_empty(fs::path(TENSORD_FUZZ_CORPUS) / target->name)) << target->name;
  }
}

}  // namespace
}  // namespace tensord::fuzz
