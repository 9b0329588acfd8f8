# The server, with a worker that has no compiler.
add_executable(server_fake_worker server_fake_worker.cc)
target_link_libraries(server_fake_worker PRIVATE tensord_worker_link)
set_target_properties(server_fake_worker PROPERTIES
  RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)

tensord_test(store_test SOURCES store_test.cc LIBS tensord_store)
tensord_test(server_keys_test SOURCES server_keys_test.cc LIBS tensord_server)
tensord_test(server_config_test SOURCES server_config_test.cc LIBS tensord_server)
foreach(name workers compile_service daemon)
  tensord_test(server_${name}_test SOURCES server_${name}_test.cc LIBS tensord_server)
  target_compile_definitions(server_${name}_test PRIVATE
    FAKE_WORKER="$<TARGET_FILE:server_fake_worker>")
  add_dependencies(server_${name}_test server_fake_worker)
endforeach()
target_compile_definitions(server_daemon_test PRIVATE TENSORD_BINARY="$<TARGET_FILE:tensord>")
add_dependencies(server_daemon_test tensord)
