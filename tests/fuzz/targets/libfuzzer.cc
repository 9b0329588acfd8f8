// SPDX-License-Identifier: Apache-2.0
// libFuzzer's entries, for the target that TENSORD_FUZZ_TARGET names.
#include <google/protobuf/stubs/logging.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "tests/fuzz/targets/mutate_message.h"
#include "tests/fuzz/targets/target.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace tensord::fuzz {
namespace {

constexpr const Target& kTarget = TENSORD_FUZZ_TARGET;

std::string_view TextOf(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

// Of a framed input its messages; of another itself. The last may be cut short.
std::vector<std::string> MessagesOf(std::string_view input) {
  if (!kTarget.framed) return {std::string(input)};
  std::vector<std::string> messages;
  while (input.size() >= 4) {
    uint32_t size = 0;
    for (int i = 3; i >= 0; --i) size = size << 8 | static_cast<uint8_t>(input[i]);
    input.remove_prefix(4);
    messages.emplace_back(input.substr(0, size));
    input.remove_prefix(messages.back().size());
  }
  return messages;
}

std::string Join(const std::vector<std::string>& messages) {
  if (!kTarget.framed) return messages.front();
  std::string input;
  for (const std::string& message : messages) {
    for (int i = 0; i < 4; ++i) input += static_cast<char>(message.size() >> (8 * i));
    input += message;
  }
  return input;
}

std::unique_ptr<google::protobuf::Message> Parse(const std::string& bytes) {
  std::unique_ptr<google::protobuf::Message> message(kTarget.message()->New());
  return message->ParseFromString(bytes) ? std::move(message) : nullptr;
}

size_t Give(const std::string& input, uint8_t* out, size_t max_size) {
  if (input.empty() || input.size() > max_size) return 0;
  std::memcpy(out, input.data(), input.size());
  return input.size();
}

// One of its messages changed; 0: it has none, or there is no room.
size_t MutateStructure(uint8_t* data, size_t size, size_t max_size, std::mt19937& random) {
  std::vector<std::string> messages = MessagesOf(TextOf(data, size));
  if (messages.empty()) return 0;
  std::string& chosen = messages[random() % messages.size()];
  const auto message = Parse(chosen);
  if (message == nullptr) return 0;
  for (unsigned turns = 1 + random() % 3; turns > 0; --turns) {
    if (kTarget.mutate != nullptr && random() % 2 == 0) {
      kTarget.mutate(message.get(), random);
    } else {
      MutateMessage(message.get(), random);
    }
  }
  chosen = message->SerializePartialAsString();
  return Give(Join(messages), data, max_size);
}

}  // namespace
}  // namespace tensord::fuzz

using namespace tensord::fuzz;  // NOLINT: libFuzzer's names follow

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  static const google::protobuf::LogSilencer silencer;
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  kTarget.run(TextOf(data, size));
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned seed) {
  std::mt19937 random(seed);
  if (kTarget.message != nullptr && random() % 8 != 0) {
    if (const size_t changed = MutateStructure(data, size, max_size, random)) return changed;
  }
  return LLVMFuzzerMutate(data, size, max_size);
}

extern "C" size_t LLVMFuzzerCustomCrossOver(const uint8_t* one, size_t one_size,
                                            const uint8_t* other, size_t other_size, uint8_t* out,
                                            size_t max_size, unsigned seed) {
  std::mt19937 random(seed);
  if (kTarget.message == nullptr) return 0;
  std::vector<std::string> ours = MessagesOf(TextOf(one, one_size));
  const std::vector<std::string> theirs = MessagesOf(TextOf(other, other_size));
  if (ours.empty() || theirs.empty()) return 0;
  std::string& chosen = ours[random() % ours.size()];
  const auto message = Parse(chosen), donor = Parse(theirs[random() % theirs.size()]);
  if (message == nullptr || donor == nullptr) return 0;
  if (!CrossOver(message.get(), *donor, random)) return 0;
  chosen = message->SerializePartialAsString();
  return Give(Join(ours), out, max_size);
}
