tensord_test(sym_test SOURCES sym_test.cc LIBS tensord_compiler)
tensord_test(schedule_test SOURCES schedule_test.cc LIBS tensord_compiler)
tensord_test(cuda_kernel_test SOURCES cuda_kernel_test.cc LIBS tensord_compiler)

tensord_test(codegen_golden_test
  SOURCES codegen_golden_test.cc kernel_runner.cc interpreter.cc scalar_ops.cc
  LIBS tensord_compiler tensord_jit)
target_compile_definitions(codegen_golden_test PRIVATE
  TENSORD_GOLDEN_DIR="${CMAKE_SOURCE_DIR}/tests/golden")
target_include_directories(codegen_golden_test PRIVATE ${CMAKE_SOURCE_DIR}/runtime/include)

tensord_test(fuzz_kernels_test
  SOURCES ../fuzz/fuzz_kernels_test.cc ../fuzz/random_graph.cc kernel_runner.cc interpreter.cc
          scalar_ops.cc
  LIBS tensord_compiler tensord_jit)
target_include_directories(fuzz_kernels_test PRIVATE ${CMAKE_SOURCE_DIR}/runtime/include)

tensord_test(cuda_codegen_test SOURCES cuda_codegen_test.cc LIBS tensord_compiler tensord_jit)
target_compile_definitions(cuda_codegen_test PRIVATE
  TENSORD_GOLDEN_DIR="${CMAKE_SOURCE_DIR}/tests/golden")
