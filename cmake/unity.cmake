# SPDX-License-Identifier: Apache-2.0
# Sources of a library are compiled several at a time, which takes half of the processor's time: what
# templates of the standard library they share is made once. So names in anonymous namespaces of one
# library are distinct. -DTENSORD_UNITY=OFF compiles each file by itself.
option(TENSORD_UNITY "Compile several sources of a library at a time" ON)

# tensord_unity(TARGET [SIZE]): SIZE sources of the target at a time, 8 where it is not given.
function(tensord_unity target)
  set(size 8)
  if(ARGC GREATER 1)
    set(size ${ARGV1})
  endif()
  set_target_properties(${target} PROPERTIES
    UNITY_BUILD ${TENSORD_UNITY} UNITY_BUILD_BATCH_SIZE ${size})
endfunction()
