foreach(pass channels_last common_subexpressions convolution_epilogues cross_entropy embedding_sum fold_batch_norm
             pad_products patch_embedding
             pointwise_convolution product_epilogues space_to_depth)
  tensord_compiler_test(rewrite_${pass}_test rewrite_${pass}_test.cc)
endforeach()
