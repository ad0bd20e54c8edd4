# The codegen id: a hash over every source that can change generated code. It stands in each cache key, so that a
# developer's edit misses; made at build time and shared by the library and the command.
file(GLOB TILEWEAVE_CODEGEN_SOURCES CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/jit/base/*.* ${CMAKE_SOURCE_DIR}/jit/base/meaning/*.*
  ${CMAKE_SOURCE_DIR}/jit/ir/*.* ${CMAKE_SOURCE_DIR}/jit/passes/*.* ${CMAKE_SOURCE_DIR}/jit/codegen/*.* ${CMAKE_SOURCE_DIR}/jit/*.cpp ${CMAKE_SOURCE_DIR}/jit/runtime/abi.h
  ${CMAKE_SOURCE_DIR}/jit/runtime/services.h)
set(codegen_id_header ${CMAKE_BINARY_DIR}/generated/tileweave_codegen_id.h)
add_custom_command(OUTPUT ${codegen_id_header}
  COMMAND ${CMAKE_COMMAND} -DOUT=${codegen_id_header} -DROOT=${CMAKE_SOURCE_DIR} -DLLVM=${LLVM_PACKAGE_VERSION}
          -P ${CMAKE_SOURCE_DIR}/cmake/write_codegen_id.cmake
  DEPENDS ${TILEWEAVE_CODEGEN_SOURCES} ${CMAKE_SOURCE_DIR}/cmake/write_codegen_id.cmake)
add_custom_target(tileweave_codegen_id DEPENDS ${codegen_id_header})
