// SPDX-License-Identifier: Apache-2.0
// What memory a process and those below it take together, as Linux says.
#ifndef TENSORD_SERVER_POOL_GROUP_MEMORY_H_
#define TENSORD_SERVER_POOL_GROUP_MEMORY_H_

#include <sys/types.h>

#include <cstdint>

namespace tensord::server {

// Bytes of `root` and of every process below it that no file holds: anonymous and shared memory, in
// memory or swapped out. What vanishes meanwhile counts as nothing. A child that is about to become
// another program has its parent's memory for a moment, which is then counted twice.
uint64_t MemoryBelow(pid_t root);

// Whether the kernel promises no more memory than there is (vm.overcommit_memory = 2): then what a
// process is refused may be what others have taken, and says nothing of its own limit.
bool MemoryIsPromisedStrictly();

}  // namespace tensord::server

#endif  // TENSORD_SERVER_POOL_GROUP_MEMORY_H_
