# tileweave_box(name globs...): an object library of one box with the project's flags and include path, and nothing else.
function(tileweave_box name)
  file(GLOB sources CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR} ${ARGN})
  list(TRANSFORM sources PREPEND ${CMAKE_SOURCE_DIR}/)
  if(NOT sources)
    file(WRITE ${CMAKE_BINARY_DIR}/generated/empty.cpp "// A box without sources yet.\n")
    set(sources ${CMAKE_BINARY_DIR}/generated/empty.cpp)
  endif()
  add_library(tileweave_${name} OBJECT ${sources})
  target_link_libraries(tileweave_${name} PRIVATE tileweave_flags)
  target_include_directories(tileweave_${name} PUBLIC ${TILEWEAVE_INCLUDE})
endfunction()

# tileweave_precompile(target headers...): headers of others, which many files of the target include and no edit of ours
# changes, are parsed once. For speed alone: every file still includes what it uses.
function(tileweave_precompile target)
  target_precompile_headers(${target} PRIVATE ${ARGN})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${target} PRIVATE -fpch-preprocess)  # ccache asks for it
  endif()
endfunction()
