# The CUDA prelude: compiled by NVRTC for each architecture, and as plain C++ for its numbers.
tensord_test(kernels_cuda_test SOURCES kernels_cuda_test.cc LIBS tensord_kernels ${CMAKE_DL_LIBS})
target_compile_definitions(kernels_cuda_test PRIVATE
  TENSORD_CUDA_TEST_PROGRAM="${CMAKE_CURRENT_SOURCE_DIR}/kernels_cuda_program.cu")

set(cuda_include ${CMAKE_CURRENT_BINARY_DIR}/cuda_include)
file(MAKE_DIRECTORY ${cuda_include}/tensord)
file(CREATE_LINK ${CMAKE_SOURCE_DIR}/kernels/cuda ${cuda_include}/tensord/cuda SYMBOLIC)
tensord_test(kernels_cuda_host_test
  SOURCES kernels_cuda_host_test.cc kernels_cuda_group_test.cc)
target_include_directories(kernels_cuda_host_test PRIVATE ${cuda_include})
# Less than -O2 shows the same numbers and takes half the time. Without contraction both preludes
# round alike.
target_compile_options(kernels_cuda_host_test PRIVATE -O1 -ffp-contract=off -fwrapv
                       -fno-strict-aliasing -Wno-unknown-pragmas)

# Generated kernels as plain C++, compiled while the test runs.
function(tensord_cuda_host_kernels_test name)
  tensord_test(${name}
    SOURCES ${ARGN} cuda_kernel_runner.cc kernel_runner.cc interpreter.cc scalar_ops.cc
    LIBS tensord_compiler tensord_jit ${CMAKE_DL_LIBS})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR}/runtime/include)
  target_compile_definitions(${name} PRIVATE
    TENSORD_TEST_CXX="${CMAKE_CXX_COMPILER}" TENSORD_SOURCE_DIR="${CMAKE_SOURCE_DIR}"
    TENSORD_CUDA_INCLUDE="${cuda_include}")
endfunction()
tensord_cuda_host_kernels_test(cuda_tiles_test cuda_tiles_test.cc)
tensord_cuda_host_kernels_test(cuda_rows_test cuda_rows_test.cc cuda_cases.cc)
tensord_cuda_host_kernels_test(cuda_alike_test cuda_alike_test.cc cuda_cases.cc)
tensord_cuda_host_kernels_test(cuda_sweeps_test cuda_sweeps_test.cc cuda_cases.cc)
