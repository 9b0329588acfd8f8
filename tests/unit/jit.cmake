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

tensord_test(jit_test SOURCES jit_test.cc LIBS tensord_jit tensord_kernels ${CMAKE_DL_LIBS})
target_include_directories(jit_test PRIVATE ${CMAKE_SOURCE_DIR}/runtime/include)
