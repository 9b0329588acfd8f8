// SPDX-License-Identifier: Apache-2.0
// The one source of the target whose precompiled header the tests use; CMake asks for a source.
