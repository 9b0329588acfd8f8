tensord_test(runtime_load_test SOURCES runtime_load_test.cc LIBS tensord_runtime_core)
tensord_test(runtime_expr_test SOURCES runtime_expr_test.cc runtime_product_choice_test.cc
  LIBS tensord_runtime_core)
add_library(fake_libcuda SHARED fake_libcuda.cc)
set_target_properties(fake_libcuda PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
target_include_directories(fake_libcuda PRIVATE ${CMAKE_SOURCE_DIR}/runtime/include)
tensord_test(runtime_cuda_test SOURCES runtime_cuda_test.cc runtime_cuda_errors_test.cc
  runtime_cuda_products_test.cc runtime_lifetimes_test.cc fake_torch.cc fake_cublaslt.cc LIBS tensord_runtime_core)
# The runtime finds torch's symbols in the process.
set_target_properties(runtime_cuda_test PROPERTIES ENABLE_EXPORTS ON)
target_precompile_headers(runtime_cuda_test PRIVATE
  <string> <vector> <gmock/gmock.h> <google/protobuf/text_format.h> <gtest/gtest.h>
  <tensord/v1/artifact.pb.h>)
target_compile_definitions(runtime_cuda_test PRIVATE FAKE_LIBCUDA="$<TARGET_FILE:fake_libcuda>")
add_dependencies(runtime_cuda_test fake_libcuda)
