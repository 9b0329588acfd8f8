// SPDX-License-Identifier: Apache-2.0
// What jemalloc reads when a program starts that is linked with it.

// Huge pages: a compile walks through all that it has made, again and again.
extern "C" {
extern const char* malloc_conf;
const char* malloc_conf = "thp:always";
}
