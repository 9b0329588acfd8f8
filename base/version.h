// SPDX-License-Identifier: Apache-2.0
// Every number by which two builds of tensord recognise each other. When to raise which, and what
// each value meant: docs/versions.md.
#ifndef TENSORD_BASE_VERSION_H_
#define TENSORD_BASE_VERSION_H_

#include <cstdint>
#include <string_view>

namespace tensord {

// The project's version, for people: "0.1.0". CMake reads it here, and the client's _version.py has
// the same.
#define TENSORD_VERSION "0.1.0"
inline const char* Version() { return TENSORD_VERSION; }

// What client and daemon say to each other (service.proto, requests.proto); a client refuses a
// daemon of another.
inline constexpr uint32_t kProtocolVersion = 1;

// The code that the compiler gives for a graph; part of every program key.
inline constexpr uint32_t kCompilerVersion = 46;

// The form of Artifact (artifact.proto); a runtime refuses another. Part of every program key.
inline constexpr uint32_t kArtifactFormat = 6;

// The form of Frame (frame.proto); a client takes no frames of another, and a daemon stores none.
inline constexpr uint32_t kFrameFormat = 6;

// How program and kernel keys are encoded before they are hashed; part of both.
inline constexpr uint32_t kKeyVersion = 1;

// The tables of the store's index (SQLite's user_version). A daemon makes older ones anew and
// refuses newer ones.
inline constexpr int kStoreForm = 5;

// The first bytes of a stored record. One of a lower last byte is of an older form and not found,
// nor is one of a higher digit, which stays; one that begins otherwise is removed as damaged.
inline constexpr std::string_view kRecordMagic = "TNSDMAN2";

// The first bytes of what hosts sign for each other in a fleet's tier; part of what is signed.
// Another is refused.
inline constexpr std::string_view kFleetMagic = "TNSDFLT1";

}  // namespace tensord

#endif  // TENSORD_BASE_VERSION_H_
