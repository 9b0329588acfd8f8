// SPDX-License-Identifier: Apache-2.0
#include "base/text.h"

namespace tensord {
namespace {

constexpr char kCutOff[] = "...";

// Whether a byte goes on with a letter of UTF-8.
bool IsWithin(char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U; }

}  // namespace

std::string Cut(const std::string& text, size_t longest) {
  if (text.size() <= longest) return text;
  size_t end = longest;
  while (end > 0 && IsWithin(text[end])) --end;
  return text.substr(0, end);
}

std::string CutFront(const std::string& text, size_t longest) {
  if (text.size() <= longest) return text;
  size_t begin = text.size() - (longest - (sizeof(kCutOff) - 1));
  while (begin < text.size() && IsWithin(text[begin])) ++begin;
  return kCutOff + text.substr(begin);
}

std::string WithoutControls(std::string text) {
  constexpr unsigned char kFirst = 0x20, kDelete = 0x7F, kC1Lead = 0xC2, kC1End = 0xA0;
  size_t to = 0;
  for (size_t from = 0; from < text.size(); ++from) {
    const auto byte = static_cast<unsigned char>(text[from]);
    const bool is_c1 = byte == kC1Lead && from + 1 < text.size() && IsWithin(text[from + 1]) &&
                       static_cast<unsigned char>(text[from + 1]) < kC1End;
    if (is_c1) ++from;
    text[to++] = is_c1 || byte < kFirst || byte == kDelete ? ' ' : static_cast<char>(byte);
  }
  text.resize(to);
  return text;
}

}  // namespace tensord
