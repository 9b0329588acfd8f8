tensord_test(import_test
  SOURCES import_test.cc
  LIBS tensord_compiler)
tensord_test(lower_graph_test
  SOURCES lower_graph_test.cc interpreter.cc scalar_ops.cc
  LIBS tensord_compiler)
