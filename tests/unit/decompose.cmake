tensord_test(decompose_test
  SOURCES decompose_test.cc interpreter.cc scalar_ops.cc
  LIBS tensord_compiler)
tensord_test(decompose_golden_test
  SOURCES decompose_golden_test.cc interpreter.cc scalar_ops.cc
  LIBS tensord_compiler)
target_compile_definitions(decompose_golden_test PRIVATE
  TENSORD_GOLDEN_DIR="${CMAKE_SOURCE_DIR}/tests/golden")
