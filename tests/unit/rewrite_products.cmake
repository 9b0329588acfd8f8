foreach(pass common_subexpressions cross_entropy pad_products product_epilogues)
  tensord_test(rewrite_${pass}_test
    SOURCES rewrite_${pass}_test.cc interpreter.cc scalar_ops.cc
    LIBS tensord_compiler)
endforeach()
