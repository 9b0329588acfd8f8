// SPDX-License-Identifier: Apache-2.0
#include "server/frames/check_values.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "server/frames/fields.h"

namespace tensord::server {
namespace {

absl::Status CheckInteger(const std::string& text) {
  std::string_view digits = text;
  if (!digits.empty() && digits[0] == '-') digits.remove_prefix(1);
  const bool sound = !digits.empty() && std::all_of(digits.begin(), digits.end(),
                                                    [](char c) { return c >= '0' && c <= '9'; });
  return sound ? absl::OkStatus() : BadField("integer", "it is no decimal number");
}

// "cuda": an index is a rank's own.
absl::Status CheckDevice(const std::string& device) {
  TENSORD_RETURN_IF_ERROR(CheckNotEmpty("device", device));
  if (device.find(':') == std::string::npos) return absl::OkStatus();
  return BadField("device", "it has an index, which is a rank's own");
}

// Protobuf reads 100 levels of messages, of which answers have two around a frame.
constexpr int kMostDepth = 90;

absl::Status CheckForm(const google::protobuf::Message& message, int depth) {
  if (depth == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("the frame is nested more than ", kMostDepth, " deep"));
  }
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  if (!reflection.GetUnknownFields(message).empty()) {
    return absl::InvalidArgumentError("the frame has fields that its format has not");
  }
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const google::protobuf::FieldDescriptor* field : fields) {
    if (field->cpp_type() != google::protobuf::FieldDescriptor::CPPTYPE_MESSAGE) continue;
    if (!field->is_repeated()) {
      TENSORD_RETURN_IF_ERROR(CheckForm(reflection.GetMessage(message, field), depth - 1));
      continue;
    }
    for (int i = 0; i < reflection.FieldSize(message, field); ++i) {
      TENSORD_RETURN_IF_ERROR(
          CheckForm(reflection.GetRepeatedMessage(message, field, i), depth - 1));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckCode(const v1::CodeIdentity& code) {
  TENSORD_RETURN_IF_ERROR(CheckDigest("digest", code.digest()));
  return CheckNotEmpty("qualified_name", code.qualified_name());
}

absl::Status CheckName(const v1::NamedObject& name) {
  return CheckNotEmpty("module", name.module());
}

absl::Status CheckClass(const v1::ClassFacts& facts) {
  TENSORD_RETURN_IF_ERROR(Within("name", CheckName(facts.name())));
  return facts.digest().empty() ? absl::OkStatus() : CheckDigest("digest", facts.digest());
}

absl::Status CheckFunction(const v1::FunctionFacts& facts) {
  TENSORD_RETURN_IF_ERROR(Within("name", CheckName(facts.name())));
  return CheckDigest("digest", facts.digest());
}

absl::Status CheckThree(absl::string_view field, const v1::FrameConstants& parts) {
  if (parts.items_size() != 3) {
    return BadField(field, "start, stop and step are needed, not ", parts.items_size(), " items");
  }
  return Within(field, CheckConstants(parts));
}

absl::Status CheckConstants(const v1::FrameConstants& constants) {
  return CheckEach("items", constants.items(), CheckConstant);
}

absl::Status CheckConstant(const v1::FrameConstant& constant) {
  using C = v1::FrameConstant;
  switch (constant.kind_case()) {
    case C::KIND_NOT_SET:
      return BadField("kind", "it is missing");
    case C::kNone:
    case C::kBoolean:
    case C::kReal:
    case C::kComplex:
    case C::kText:
    case C::kData:
    case C::kEllipsis:
      return absl::OkStatus();
    case C::kInteger:
      return CheckInteger(constant.integer());
    case C::kTuple:
      return Within("tuple", CheckConstants(constant.tuple()));
    case C::kList:
      return Within("list", CheckConstants(constant.list()));
    case C::kFrozenset:
      return Within("frozenset", CheckConstants(constant.frozenset()));
    case C::kSet:
      return Within("set", CheckConstants(constant.set()));
    case C::kSize:
      return Within("size", CheckConstants(constant.size()));
    case C::kSlice:
      return CheckThree("slice", constant.slice());
    case C::kRange:
      return CheckThree("range", constant.range());
    case C::kNamed:
      return Within("named", CheckName(constant.named()));
    case C::kDtype:
      return CheckNotEmpty("dtype", constant.dtype());
    case C::kDevice:
      return CheckDevice(constant.device());
    case C::kOwnDevice:
      return Within("own_device", CheckDevice(constant.own_device()));
    case C::kNumpy:
      return CheckNotEmpty("numpy.dtype", constant.numpy().dtype());
    case C::kLayout:
      return CheckNotEmpty("layout", constant.layout());
    case C::kMemoryFormat:
      return CheckNotEmpty("memory_format", constant.memory_format());
    case C::kDictionary:
      if (constant.dictionary().items_size() % 2 != 0) {
        return BadField("dictionary", "a key has no value");
      }
      return Within("dictionary", CheckConstants(constant.dictionary()));
    case C::kCode:
      return Within("code", CheckBytecode(constant.code()));
  }
  return BadField("kind", "it is not of this format");
}

absl::Status CheckBytecode(const v1::FrameCode& code) {
  TENSORD_RETURN_IF_ERROR(CheckNotEmpty("bytecode", code.bytecode()));
  TENSORD_RETURN_IF_ERROR(CheckNotEmpty("name", code.name()));
  TENSORD_RETURN_IF_ERROR(Within("constants", CheckConstants(code.constants())));
  const uint64_t arguments = uint64_t{code.positional()} + code.keyword_only();
  if (arguments > static_cast<uint64_t>(code.variables_size())) {
    return BadField("variables", code.variables_size(), " for ", arguments, " arguments");
  }
  return code.positional_only() <= code.positional()
             ? absl::OkStatus()
             : BadField("positional_only", code.positional_only(), " of ", code.positional(),
                        " positional arguments");
}

absl::Status CheckTensor(const v1::TensorFacts& tensor) {
  TENSORD_RETURN_IF_ERROR(Within("type", CheckName(tensor.type())));
  TENSORD_RETURN_IF_ERROR(CheckNotEmpty("dtype", tensor.dtype()));
  TENSORD_RETURN_IF_ERROR(CheckDevice(tensor.device()));
  TENSORD_RETURN_IF_ERROR(CheckEach("sizes", tensor.sizes(), [](const v1::OptionalInt& size) {
    return size.value() < 0 ? BadField("value", "a size is not negative") : absl::OkStatus();
  }));
  if (!tensor.has_sizes() && tensor.sizes_size() > 0) {
    return BadField("sizes", "a tensor without sizes has ", tensor.sizes_size());
  }
  TENSORD_RETURN_IF_ERROR(CheckCount("strides", tensor.strides_size(),
                                     static_cast<uint64_t>(tensor.sizes_size()), "dimensions"));
  return CheckEach("marks", tensor.marks(), [](const v1::DimensionMarks& marks) {
    return CheckNotEmpty("attribute", marks.attribute());
  });
}

absl::Status CheckForm(const google::protobuf::Message& message) {
  return CheckForm(message, kMostDepth);
}

}  // namespace tensord::server
