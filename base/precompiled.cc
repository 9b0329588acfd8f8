// SPDX-License-Identifier: Apache-2.0
// A library that is a precompiled header needs a source.
