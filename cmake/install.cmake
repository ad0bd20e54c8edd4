# cmake --install: headers under include/tileweave/, both libraries, the CMake package and a pkg-config file.
include(CMakePackageConfigHelpers)
install(TARGETS tileweave EXPORT tileweaveTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS tileweave_jit LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
foreach(box dsl jit/base jit/ir jit/runtime ops cache)
  install(DIRECTORY ${box}/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tileweave/${box} FILES_MATCHING PATTERN "*.h" PATTERN "*.def"
          PATTERN decorator EXCLUDE)
endforeach()
install(FILES jit/jit.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tileweave/jit)
install(FILES dsl/tileweave.h dsl/tileweave_c.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tileweave)
install(EXPORT tileweaveTargets NAMESPACE tileweave:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tileweave)
configure_package_config_file(cmake/tileweaveConfig.cmake.in ${CMAKE_BINARY_DIR}/generated/tileweaveConfig.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tileweave)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/generated/tileweaveConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/generated/tileweaveConfig.cmake ${CMAKE_BINARY_DIR}/generated/tileweaveConfigVersion.cmake
  cmake/FusionGroups.cmake
  cmake/tileweaveWarm.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tileweave)
configure_file(cmake/tileweave.pc.in ${CMAKE_BINARY_DIR}/generated/tileweave.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/generated/tileweave.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
