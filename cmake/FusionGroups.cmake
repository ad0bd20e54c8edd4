# tileweave_fusion_groups(target file...): makes fusion groups of the functions marked TILEWEAVE_FUSION_GROUP in these sources
# of the target. For each source NAME.cpp the header NAME.fusion.h is written in the build folder, where the target finds it;
# it is written again when the source, a header it includes, or the tool changes, or the target's flags do.
function(tileweave_fusion_groups target)
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/${target}.fusion)
  file(MAKE_DIRECTORY ${folder})
  set(headers "")
  # The flags that the target is compiled with, its libraries' included. Evaluated when the build is generated.
  set(defines "$<TARGET_PROPERTY:${target},COMPILE_DEFINITIONS>")
  set(includes "$<TARGET_PROPERTY:${target},INCLUDE_DIRECTORIES>")
  set(options "$<TARGET_PROPERTY:${target},COMPILE_OPTIONS>")
  set(standard "$<TARGET_PROPERTY:${target},CXX_STANDARD>")
  separate_arguments(global UNIX_COMMAND "${CMAKE_CXX_FLAGS}")
  foreach(source ${ARGN})
    get_filename_component(path ${source} ABSOLUTE)
    get_filename_component(name ${source} NAME_WE)
    set(header ${folder}/${name}.fusion.h)
    add_custom_command(OUTPUT ${header}
      COMMAND $<TARGET_FILE:tileweave::fuse> ${path} -o ${header} --depfile ${header}.d --
              -std=c++$<IF:$<BOOL:${standard}>,${standard},20> ${global}
              "$<$<BOOL:${defines}>:-D$<JOIN:${defines},;-D>>" "$<$<BOOL:${includes}>:-I$<JOIN:${includes},;-I>>" "${options}"
      DEPENDS ${path} tileweave::fuse
      DEPFILE ${header}.d
      COMMENT "Fusion groups of ${name}"
      COMMAND_EXPAND_LISTS VERBATIM)
    list(APPEND headers ${header})
  endforeach()
  # Before the target's own sources: they include what is written here.
  add_custom_target(${target}_fusion_groups DEPENDS ${headers})
  add_dependencies(${target} ${target}_fusion_groups)
  target_include_directories(${target} PRIVATE ${folder})
endfunction()
