// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/targets/mutate_message.h"

#include <google/protobuf/descriptor.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

namespace tensord::fuzz {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

constexpr int kMostItems = 64;  // that a list grows to

// The message and all that it holds.
void Collect(Message* message, std::vector<Message*>* all) {
  all->push_back(message);
  const Reflection& reflection = *message->GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(*message, &fields);
  for (const FieldDescriptor* field : fields) {
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) continue;
    if (!field->is_repeated()) {
      Collect(reflection.MutableMessage(message, field), all);
      continue;
    }
    for (int i = 0; i < reflection.FieldSize(*message, field); ++i) {
      Collect(reflection.MutableRepeatedMessage(message, field, i), all);
    }
  }
}

class Mutator {
 public:
  Mutator(Message* whole, std::mt19937& random) : random_(random) { Collect(whole, &all_); }

  void Run() {
    // A list of thousand items would leave nothing for what holds it.
    Message* message = all_[Below(Below(2) == 0 ? all_.size() : (all_.size() + 3) / 4)];
    const auto* descriptor = message->GetDescriptor();
    if (descriptor->field_count() == 0) return;
    std::vector<const FieldDescriptor*> fields;
    message->GetReflection()->ListFields(*message, &fields);
    // Mostly what is there.
    const FieldDescriptor* field =
        fields.empty() || Below(4) == 0
            ? descriptor->field(static_cast<int>(Below(descriptor->field_count())))
            : fields[Below(fields.size())];
    if (field->is_repeated()) {
      ChangeList(message, field);
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      ChangePart(message, field);
    } else if (Below(8) == 0) {
      message->GetReflection()->ClearField(message, field);
    } else {
      Set(message, field, -1);
    }
  }

 private:
  size_t Below(size_t count) { return random_() % count; }

  void ChangePart(Message* message, const FieldDescriptor* field) {
    const Reflection& reflection = *message->GetReflection();
    if (reflection.HasField(*message, field) && Below(3) == 0) {
      return reflection.ClearField(message, field);
    }
    // Before there is the field, with which another of a `oneof` may go.
    const auto copy = Another(field);
    Message* part = reflection.MutableMessage(message, field);
    if (copy != nullptr) part->CopyFrom(*copy);
  }

  // A copy of a message of that type; null: there is none.
  std::unique_ptr<Message> Another(const FieldDescriptor* field) {
    std::vector<const Message*> alike;
    for (const Message* one : all_) {
      if (one->GetDescriptor() == field->message_type()) alike.push_back(one);
    }
    if (alike.empty()) return nullptr;
    const Message& chosen = *alike[Below(alike.size())];
    std::unique_ptr<Message> copy(chosen.New());
    copy->CopyFrom(chosen);
    return copy;
  }

  void ChangeList(Message* message, const FieldDescriptor* field) {
    const Reflection& reflection = *message->GetReflection();
    const int size = reflection.FieldSize(*message, field);
    const auto any = [&] { return static_cast<int>(Below(static_cast<size_t>(size))); };
    switch (size == 0 ? 0 : Below(5)) {
      case 0:
        if (size < kMostItems) Add(message, field, size > 0 ? any() : -1);
        break;
      case 1:
        reflection.SwapElements(message, field, any(), size - 1);
        reflection.RemoveLast(message, field);
        break;
      case 2:
        reflection.SwapElements(message, field, any(), any());
        break;
      default:
        if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
          reflection.MutableRepeatedMessage(message, field, any())->CopyFrom(*Another(field));
        } else {
          Set(message, field, any());
        }
    }
  }

  // A copy of an item, or one of its own where `item` is -1.
  void Add(Message* message, const FieldDescriptor* field, int item) {
    const Reflection& reflection = *message->GetReflection();
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      auto copy = Another(field);
      Message* added = reflection.AddMessage(message, field);
      if (item >= 0) return added->CopyFrom(reflection.GetRepeatedMessage(*message, field, item));
      if (copy != nullptr) added->CopyFrom(*copy);
    } else {
      AddScalar(message, field);
      Set(message, field, reflection.FieldSize(*message, field) - 1);
    }
  }

  static void AddScalar(Message* message, const FieldDescriptor* field) {
    const Reflection& reflection = *message->GetReflection();
    switch (field->cpp_type()) {
      case FieldDescriptor::CPPTYPE_INT32:
        return reflection.AddInt32(message, field, 0);
      case FieldDescriptor::CPPTYPE_INT64:
        return reflection.AddInt64(message, field, 0);
      case FieldDescriptor::CPPTYPE_UINT32:
        return reflection.AddUInt32(message, field, 0);
      case FieldDescriptor::CPPTYPE_UINT64:
        return reflection.AddUInt64(message, field, 0);
      case FieldDescriptor::CPPTYPE_DOUBLE:
        return reflection.AddDouble(message, field, 0);
      case FieldDescriptor::CPPTYPE_FLOAT:
        return reflection.AddFloat(message, field, 0);
      case FieldDescriptor::CPPTYPE_BOOL:
        return reflection.AddBool(message, field, false);
      case FieldDescriptor::CPPTYPE_ENUM:
        return reflection.AddEnumValue(message, field, 0);
      case FieldDescriptor::CPPTYPE_STRING:
        return reflection.AddString(message, field, "");
      case FieldDescriptor::CPPTYPE_MESSAGE:
        return;
    }
  }

  template <class T>
  T Number(T now) {
    constexpr T kLargest = std::numeric_limits<T>::max(), kLeast = std::numeric_limits<T>::min();
    const T any[] = {0, 1, 2, 3, 4, 7, 8, 64, 100, kLargest, kLeast, static_cast<T>(random_())};
    switch (Below(4)) {
      case 0:
        return static_cast<T>(static_cast<uint64_t>(now) + 1);
      case 1:
        return static_cast<T>(static_cast<uint64_t>(now) - 1);
      default:
        return any[Below(std::size(any))];
    }
  }

  double Real() {
    const double any[] = {0,
                          -0.0,
                          1,
                          -1,
                          0.5,
                          1e-300,
                          1e300,
                          3,
                          std::numeric_limits<double>::max(),
                          std::numeric_limits<double>::infinity(),
                          std::numeric_limits<double>::quiet_NaN()};
    return any[Below(std::size(any))];
  }

  // That of the same field elsewhere, or another.
  std::string Text(const FieldDescriptor* field, std::string text) {
    std::vector<std::string> others;
    for (const Message* message : all_) {
      if (message->GetDescriptor() != field->containing_type()) continue;
      const Reflection& reflection = *message->GetReflection();
      if (!field->is_repeated()) {
        others.push_back(reflection.GetString(*message, field));
        continue;
      }
      for (int i = 0; i < reflection.FieldSize(*message, field); ++i) {
        others.push_back(reflection.GetRepeatedString(*message, field, i));
      }
    }
    if (!others.empty() && Below(2) == 0) return others[Below(others.size())];
    if (text.empty() || Below(4) == 0) text += static_cast<char>('a' + Below(26));
    const size_t at = Below(text.size());
    switch (Below(3)) {
      case 0:
        text.resize(at);
        break;
      case 1:
        // The texts of a message are UTF-8, or it would be none.
        text[at] = static_cast<char>(field->type() == FieldDescriptor::TYPE_BYTES ? random_()
                                                                                  : Below(128));
        break;
      default:
        text.insert(at, 1, "-.:9\n"[Below(5)]);
    }
    return text;
  }

  // `item`: of a list; -1: the field is none.
  void Set(Message* message, const FieldDescriptor* field, int item) {
    const Reflection& r = *message->GetReflection();
    switch (field->cpp_type()) {
#define TENSORD_NUMBER(kind, name)                                                      \
  case FieldDescriptor::CPPTYPE_##kind:                                                 \
    return item < 0 ? r.Set##name(message, field, Number(r.Get##name(*message, field))) \
                    : r.SetRepeated##name(message, field, item,                         \
                                          Number(r.GetRepeated##name(*message, field, item)));
      TENSORD_NUMBER(INT32, Int32)
      TENSORD_NUMBER(INT64, Int64)
      TENSORD_NUMBER(UINT32, UInt32)
      TENSORD_NUMBER(UINT64, UInt64)
#undef TENSORD_NUMBER
      case FieldDescriptor::CPPTYPE_DOUBLE:
        return item < 0 ? r.SetDouble(message, field, Real())
                        : r.SetRepeatedDouble(message, field, item, Real());
      case FieldDescriptor::CPPTYPE_FLOAT:
        return item < 0 ? r.SetFloat(message, field, static_cast<float>(Real()))
                        : r.SetRepeatedFloat(message, field, item, static_cast<float>(Real()));
      case FieldDescriptor::CPPTYPE_BOOL:
        return item < 0 ? r.SetBool(message, field, !r.GetBool(*message, field))
                        : r.SetRepeatedBool(message, field, item, Below(2) == 0);
      case FieldDescriptor::CPPTYPE_ENUM: {
        const auto* type = field->enum_type();
        const int value = Below(16) == 0
                              ? 99
                              : type->value(static_cast<int>(Below(type->value_count())))->number();
        return item < 0 ? r.SetEnumValue(message, field, value)
                        : r.SetRepeatedEnumValue(message, field, item, value);
      }
      case FieldDescriptor::CPPTYPE_STRING:
        return item < 0
                   ? r.SetString(message, field, Text(field, r.GetString(*message, field)))
                   : r.SetRepeatedString(message, field, item,
                                         Text(field, r.GetRepeatedString(*message, field, item)));
      case FieldDescriptor::CPPTYPE_MESSAGE:
        return;
    }
  }

  std::mt19937& random_;
  std::vector<Message*> all_;
};

}  // namespace

void MutateMessage(Message* message, std::mt19937& random) { Mutator(message, random).Run(); }

bool CrossOver(Message* message, const Message& from, std::mt19937& random) {
  const std::unique_ptr<Message> donor(from.New());
  donor->CopyFrom(from);
  std::vector<Message*> ours, theirs;
  Collect(message, &ours);
  Collect(donor.get(), &theirs);
  Message* part = ours[random() % ours.size()];
  const size_t start = random() % theirs.size();
  for (size_t i = 0; i < theirs.size(); ++i) {
    const Message* other = theirs[(start + i) % theirs.size()];
    if (other->GetDescriptor() != part->GetDescriptor()) continue;
    part->CopyFrom(*other);
    return true;
  }
  return false;
}

}  // namespace tensord::fuzz
