#ifndef TENSORD_BASE_VERSION_H_
#define TENSORD_BASE_VERSION_H_

#include <cstdint>

namespace tensord {

// The project's version: "0.1.0".
const char* Version();

// Raised whenever the compiler may give other code for the same graph; part of every program key.
inline constexpr uint32_t kCompilerVersion = 20;
// The form of Artifact; a runtime refuses another.
inline constexpr uint32_t kArtifactFormat = 3;

}  // namespace tensord

#endif  // TENSORD_BASE_VERSION_H_
