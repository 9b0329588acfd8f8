// SPDX-License-Identifier: Apache-2.0
// Bytes of fields, to be hashed.
#ifndef TENSORD_SERVER_PROGRAM_ENCODER_H_
#define TENSORD_SERVER_PROGRAM_ENCODER_H_

#include <google/protobuf/message.h>

#include <cstdint>
#include <string>
#include <utility>

#include "tensord/v1/graph.pb.h"

namespace tensord::server {

// Appends fields with their lengths, so that no two sequences of fields give the same bytes.
// Messages are serialised by protobuf: none of them has a map or a field for people, so that is
// deterministic.
class Encoder {
 public:
  Encoder& Number(uint64_t value) {
    for (int i = 0; i < 8; ++i) out_.push_back(static_cast<char>(value >> (8 * i)));
    return *this;
  }
  Encoder& Text(const std::string& value) {
    Number(value.size());
    out_ += value;
    return *this;
  }
  Encoder& Whole(const google::protobuf::Message& message) {
    Number(message.ByteSizeLong());
    message.AppendToString(&out_);
    return *this;
  }
  template <class List>
  Encoder& WholeList(const List& messages) {
    Number(static_cast<uint64_t>(messages.size()));
    for (const auto& message : messages) Whole(message);
    return *this;
  }
  std::string Take() { return std::move(out_); }

 private:
  std::string out_;
};

// Without their names, which are for people.
inline void EncodeInput(const v1::Input& input, Encoder& out) {
  out.Number(input.kind_case());
  if (input.has_tensor()) out.Whole(input.tensor());
  if (input.has_size()) out.Whole(input.size());
  out.Number((input.is_parameter() ? 1u : 0u) | (input.is_donated() ? 2u : 0u));
}

inline void EncodeConstant(const v1::Constant& constant, Encoder& out) {
  out.Whole(constant.meta()).Text(constant.data());
}

}  // namespace tensord::server

#endif  // TENSORD_SERVER_PROGRAM_ENCODER_H_
