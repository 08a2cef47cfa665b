# `cmake --install`: the commands, the applications, and what programs from elsewhere need, in one folder that may be moved.
#   PREFIX/lib/braid/bin       braid, braidd, braid-node, the compilers, the applications (sim/: for simulation), models/, report/
#   PREFIX/lib/braid/include   headers for braid-cc and braid-c++, and the macros of `braid parmacs`
#   PREFIX/lib/braid/lib       archives, the linker script of --shared-globals, and the compiler plug-in
#   PREFIX/bin                 links to the commands
#   PREFIX/share/braid         configs/, examples/

set(place lib/braid)
set(commands braid braidd braid-node)

install(TARGETS braid braidd braid-node braid-times DESTINATION ${place}/bin)
foreach(application ${applications})
  if(application MATCHES "_sim$")
    install(TARGETS ${application} DESTINATION ${place}/bin/sim)
  else()
    install(TARGETS ${application} DESTINATION ${place}/bin)
  endif()
endforeach()
# tools/quickstart does not build them.
get_property(checked_applications GLOBAL PROPERTY BRAID_CHECKED_APPLICATIONS)
if(checked_applications)
  install(TARGETS ${checked_applications} DESTINATION ${place}/bin/sim/checked OPTIONAL)
endif()
install(DIRECTORY configs/models DESTINATION ${place}/bin FILES_MATCHING PATTERN "*.yaml")
install(DIRECTORY ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/report DESTINATION ${place}/bin)
install(PROGRAMS tools/study_table DESTINATION ${place}/bin RENAME braid-study-table)
install(DIRECTORY configs examples DESTINATION share/braid)

if(DEFINED braid_installed_scripts)
  list(APPEND commands braid-cc braid-c++ ${braid_archivers})
  foreach(archiver ${braid_archivers})
    install(PROGRAMS ${braid_installed_scripts}/${archiver} DESTINATION ${place}/bin)
  endforeach()
  install(PROGRAMS ${braid_installed_scripts}/braid-cc ${braid_installed_scripts}/braid-c++
    ${braid_installed_scripts}/braid-parmacs DESTINATION ${place}/bin)
  install(FILES ${braid_globals_script} DESTINATION ${place}/lib)
  foreach(library ${braid_program_libraries})
    install(FILES $<TARGET_FILE:${library}> DESTINATION ${place}/lib)
  endforeach()
  foreach(object ${braid_pthreads_object} ${braid_pthreads_sim_object})
    install(FILES ${object} DESTINATION ${place}/lib)
  endforeach()
  foreach(folder base convergence dsm proxy stack)
    install(DIRECTORY ${folder} DESTINATION ${place}/include
      FILES_MATCHING PATTERN "*.h" PATTERN "*.m4.braid")
  endforeach()
endif()

foreach(command ${commands})
  install(CODE "
    file(MAKE_DIRECTORY \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/bin\")
    file(CREATE_LINK ../${place}/bin/${command} \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/bin/${command}\" SYMBOLIC)")
endforeach()
