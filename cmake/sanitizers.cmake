# SPDX-License-Identifier: Apache-2.0
# TENSORD_SANITIZERS, of the presets asan and tsan: what every file is compiled and linked with.
set(TENSORD_SANITIZERS "" CACHE STRING "-fsanitize='s argument: address,undefined or thread")
if(TENSORD_SANITIZERS)
  add_compile_options(-fsanitize=${TENSORD_SANITIZERS} -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${TENSORD_SANITIZERS})
endif()
# Of the preset fuzz: every file counts what runs of it.
if(TENSORD_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()
# The folders of tests/unit whose tests each has: memory and undefined behaviour are everybody's,
# races of those that have threads. Generated code is compiled without a sanitizer, as daemons have it.
set(TENSORD_ASAN_FOLDERS
    base sym graph ops import decompose rewrite schedule kernel_ir codegen kernels memory jit pipeline
    server runtime fuzz)
set(TENSORD_TSAN_FOLDERS base server runtime)
# Long ones whose code shorter tests run too, or that are NVRTC's for the most part. No names of tests
# in parts (SHARDS).
set(TENSORD_ASAN_EXCLUDED
    growth_test fuzz_kernels_test kernels_cpu_scalar_test kernels_cpu_avx512_test
    cuda_codegen_test cuda_scans_test cuda_sweeps_test
    codegen_cuda_norms_test codegen_cuda_rows_test)
foreach(folder ${TENSORD_ASAN_FOLDERS} ${TENSORD_TSAN_FOLDERS})
  if(NOT IS_DIRECTORY ${CMAKE_SOURCE_DIR}/tests/unit/${folder})
    message(FATAL_ERROR "cmake/sanitizers.cmake names ${folder}, which is no folder of tests/unit")
  endif()
endforeach()
# Nearly all that is the daemon's own, or a remote tier's, is gRPC's threads, and gRPC's library is not
# built for ThreadSanitizer: of 1976 reports of the second none was of an access in a line of ours. What
# they call is tested by the other tests of the folder, the fleet's all. server_action_test runs a
# worker as a process and asks such a tier.
set(TENSORD_TSAN_EXCLUDED
    server_daemon_test server_daemon_jobs_test server_daemon_watch_test server_fleet_remote_test
    server_action_test)
