// SPDX-License-Identifier: Apache-2.0
// Texts that others say, as they are kept and shown.
#ifndef TENSORD_BASE_TEXT_H_
#define TENSORD_BASE_TEXT_H_

#include <cstddef>
#include <string>

namespace tensord {

// The beginning of a text, in whole letters of UTF-8, of no more than so many bytes.
std::string Cut(const std::string& text, size_t longest);
// Its end, behind "..." where it is cut: of no more than so many bytes, at least three.
std::string CutFront(const std::string& text, size_t longest);
// A blank for each control character (C0, DEL, and C1 in UTF-8): a terminal obeys them, and a line
// ends at some.
std::string WithoutControls(std::string text);

}  // namespace tensord

#endif  // TENSORD_BASE_TEXT_H_
