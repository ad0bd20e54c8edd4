# tileweave_warm(<name> TARGETS <target>... OUTPUT <pack> (MANIFEST <file.rec>... | RUN <command>...) [JOBS <n>] [DEPENDS <file>...])
#
# Makes a custom target <name>, part of ALL, that compiles kernels for the TARGETS (sm_80, sm_90a, native, x86-64-v3, ...)
# into the pack OUTPUT at build time; no GPU is needed.
#   MANIFEST  what was recorded by TILEWEAVE_RECORD or `tileweave record`, for example in the program's tests
#   RUN       a command (a target's name stands for its program) that is run at build time and recorded
# The pack's path is in the target's property TILEWEAVE_PACK; install it with install(FILES).
function(tileweave_warm name)
  cmake_parse_arguments(PARSE_ARGV 1 W "" "OUTPUT;JOBS" "TARGETS;MANIFEST;RUN;DEPENDS")
  if(W_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "tileweave_warm(${name}): unknown arguments: ${W_UNPARSED_ARGUMENTS}")
  endif()
  if(NOT W_TARGETS OR NOT W_OUTPUT)
    message(FATAL_ERROR "tileweave_warm(${name}): give TARGETS and OUTPUT")
  endif()
  if((W_MANIFEST AND W_RUN) OR NOT (W_MANIFEST OR W_RUN))
    message(FATAL_ERROR "tileweave_warm(${name}): give either MANIFEST or RUN")
  endif()
  if(NOT W_JOBS)
    set(W_JOBS 2)
  endif()
  cmake_path(ABSOLUTE_PATH W_OUTPUT BASE_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR})
  if(TARGET tileweave_tool)  # in tileweave's own tree
    set(program $<TARGET_FILE:tileweave_tool>)
    list(APPEND W_DEPENDS tileweave_tool)
  else()
    set(program ${TILEWEAVE_PROGRAM})
  endif()
  if(W_RUN)
    set(W_MANIFEST ${CMAKE_CURRENT_BINARY_DIR}/${name}.rec)
    list(POP_FRONT W_RUN first)
    if(TARGET ${first})
      list(APPEND W_DEPENDS ${first})
      set(first $<TARGET_FILE:${first}>)
    endif()
    add_custom_command(OUTPUT ${W_MANIFEST}
      COMMAND ${CMAKE_COMMAND} -E env TILEWEAVE_CACHE=off ${program} record -o ${W_MANIFEST} -- ${first} ${W_RUN}
      DEPENDS ${W_DEPENDS} COMMENT "Recording the kernels of ${name}" VERBATIM)
  endif()
  list(TRANSFORM W_MANIFEST PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/ REGEX "^[^/]")
  list(JOIN W_TARGETS "," targets)
  add_custom_command(OUTPUT ${W_OUTPUT}
    COMMAND ${program} warmup ${W_MANIFEST} --target ${targets} -o ${W_OUTPUT} -j ${W_JOBS}
    DEPENDS ${W_MANIFEST} ${W_DEPENDS} COMMENT "Compiling the kernels of ${name}" VERBATIM)
  add_custom_target(${name} ALL DEPENDS ${W_OUTPUT})
  set_target_properties(${name} PROPERTIES TILEWEAVE_PACK ${W_OUTPUT})
endfunction()
