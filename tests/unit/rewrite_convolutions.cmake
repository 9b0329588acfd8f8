foreach(pass fold_batch_norm convolution_epilogues channels_last patch_embedding)
  tensord_test(rewrite_${pass}_test
    SOURCES rewrite_${pass}_test.cc rewrite_testing.cc interpreter.cc scalar_ops.cc
    LIBS tensord_compiler)
endforeach()
