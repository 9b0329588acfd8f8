# The CPU prelude, once per instruction set with the flags that kernels are compiled with, and the JIT.
set(prelude_flags -O2 -fno-math-errno -fno-trapping-math -ffp-contract=fast -fwrapv -fno-strict-aliasing)
set(prelude_flags_scalar)
set(prelude_flags_avx2 -mavx2 -mfma -mf16c -mbmi2)
set(prelude_flags_avx512 -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512cd
    -mprefer-vector-width=512 -mfma -mf16c -mbmi2)
foreach(isa scalar avx2 avx512)
  tensord_test(kernels_cpu_${isa}_test
    SOURCES kernels_cpu_math_test.cc kernels_cpu_memory_test.cc kernels_cpu_reduce_test.cc)
  # GCC 12 warns falsely of std::vector's own memory.
  target_compile_options(kernels_cpu_${isa}_test PRIVATE ${prelude_flags} ${prelude_flags_${isa}}
                         -Wno-free-nonheap-object)
endforeach()

# What only moves values compiles in less than half of the time so, three times.
set_source_files_properties(kernels_cpu_memory_test.cc PROPERTIES COMPILE_OPTIONS -O0)

tensord_test(jit_test SOURCES jit_test.cc LIBS tensord_jit tensord_kernels ${CMAKE_DL_LIBS})
target_include_directories(jit_test PRIVATE ${CMAKE_SOURCE_DIR}/runtime/include)

# A library of the name that the JIT looks for, too old to be used.
add_library(jit_nvrtc_fake SHARED jit_nvrtc_fake.cc)
set_target_properties(jit_nvrtc_fake PROPERTIES
  PREFIX "" OUTPUT_NAME "libnvrtc" SUFFIX ".so.12"
  LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/fake_nvrtc)
tensord_test(jit_nvrtc_test SOURCES jit_nvrtc_test.cc LIBS tensord_jit tensord_kernels)
target_compile_definitions(jit_nvrtc_test PRIVATE FAKE_NVRTC="$<TARGET_FILE:jit_nvrtc_fake>")
add_dependencies(jit_nvrtc_test jit_nvrtc_fake)
