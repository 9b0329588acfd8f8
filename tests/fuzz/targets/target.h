// SPDX-License-Identifier: Apache-2.0
// What is fuzzed: bytes from outside, and the code that reads them. One file a target; libFuzzer
// runs it (tests/fuzz/targets.sh), and tests/unit/fuzz replays what it has found.
#ifndef TENSORD_TESTS_FUZZ_TARGETS_TARGET_H_
#define TENSORD_TESTS_FUZZ_TARGETS_TARGET_H_

#include <google/protobuf/message.h>

#include <random>
#include <string_view>

namespace tensord::fuzz {

struct Target {
  const char* name;
  // Reads the input and checks what must hold of any; TENSORD_CHECK ends the process where it does
  // not. Keeps nothing from one call to the next but what is expensive to make.
  void (*run)(std::string_view input);
  // What the input is as a message, for mutations that leave it one; null where it is none.
  const google::protobuf::Message* (*message)() = nullptr;
  // Whether the input is several such messages, each behind its length (server/worker/framing.h).
  bool framed = false;
  // A mutation of the target's own, of a message of that type.
  void (*mutate)(google::protobuf::Message* message, std::mt19937& random) = nullptr;
};

extern const Target kRequestTarget;
extern const Target kGraphTarget;
extern const Target kRecordTarget;
extern const Target kArtifactTarget;
extern const Target kWorkerTarget;
extern const Target kFrameTarget;
extern const Target kArchiveTarget;
extern const Target kProfileTarget;

}  // namespace tensord::fuzz

#endif  // TENSORD_TESTS_FUZZ_TARGETS_TARGET_H_
