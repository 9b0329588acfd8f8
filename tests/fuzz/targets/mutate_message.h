// SPDX-License-Identifier: Apache-2.0
// Mutations that leave a message one: bytes that are changed anywhere seldom do, so that little but
// protobuf's own parser would be fuzzed.
#ifndef TENSORD_TESTS_FUZZ_TARGETS_MUTATE_MESSAGE_H_
#define TENSORD_TESTS_FUZZ_TARGETS_MUTATE_MESSAGE_H_

#include <google/protobuf/message.h>

#include <random>

namespace tensord::fuzz {

// Changes one field of the message or of one in it: a number, a text, a part set, dropped or
// replaced by another of its type, an item of a list added, doubled, moved or dropped.
void MutateMessage(google::protobuf::Message* message, std::mt19937& random);

// Puts a part of `from` in the place of a part of its type. False: there is none.
bool CrossOver(google::protobuf::Message* message, const google::protobuf::Message& from,
               std::mt19937& random);

}  // namespace tensord::fuzz

#endif  // TENSORD_TESTS_FUZZ_TARGETS_MUTATE_MESSAGE_H_
