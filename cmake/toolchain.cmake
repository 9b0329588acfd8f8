# SPDX-License-Identifier: Apache-2.0
# Speeds up builds where the tools are present: ccache for compiling, mold for linking.
find_program(TENSORD_CCACHE ccache)
if(TENSORD_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER /bin/sh ${CMAKE_SOURCE_DIR}/cmake/compile.sh ${TENSORD_CCACHE})
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess>)
endif()
find_program(TENSORD_MOLD mold)
if(TENSORD_MOLD)
  add_link_options(-fuse-ld=mold)
endif()
