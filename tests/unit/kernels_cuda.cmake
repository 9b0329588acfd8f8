# The CUDA prelude: compiled by NVRTC for each architecture, and as plain C++ for its numbers.
tensord_test(kernels_cuda_test SOURCES kernels_cuda_test.cc LIBS tensord_kernels ${CMAKE_DL_LIBS})
target_compile_definitions(kernels_cuda_test PRIVATE
  TENSORD_CUDA_TEST_PROGRAM="${CMAKE_CURRENT_SOURCE_DIR}/kernels_cuda_program.cu")

tensord_test(kernels_cuda_host_test
  SOURCES kernels_cuda_host_test.cc kernels_cuda_group_test.cc)
target_include_directories(kernels_cuda_host_test PRIVATE ${cuda_include})
# -O0 shows the same numbers and compiles in a third of the time. Without contraction both preludes
# round alike.
target_compile_options(kernels_cuda_host_test PRIVATE -O0 -ffp-contract=off -fwrapv
                       -fno-strict-aliasing -Wno-unknown-pragmas)

# Generated kernels as plain C++, compiled while the test runs.
foreach(part tiles norms rows alike sweeps batch_norm pool)
  tensord_compiler_test(cuda_${part}_test cuda_${part}_test.cc)
endforeach()
