# What `braid-cc --pthreads` links: the runtime as one object, in which the program's names do not stand. The linker gives
# the program's own calls of pthread_create() and so on to __wrap_pthread_create() (dsm/pthreads/wrapped.txt); the runtime, which
# calls the C library's, says __real_pthread_create(). What C++ leaves in both, such as templates, is each one's own.
set(braid_pthreads_object "")
if(NOT TARGET braid_pthreads OR BRAID_SANITIZE)
  return()
endif()

set(wrapped_file ${PROJECT_SOURCE_DIR}/dsm/pthreads/wrapped.txt)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${wrapped_file})
file(STRINGS ${wrapped_file} wrapped)
set(braid_pthreads_wraps "")
set(renamed "")
foreach(name ${wrapped})
  list(APPEND braid_pthreads_wraps "--wrap=${name}")
  # The others are defined by the program, or by the runtime itself.
  if(NOT name MATCHES "^(main|sigaction|signal)$")
    string(APPEND renamed "${name} __real_${name}\n")
  endif()
endforeach()
# Function-local statics: the calls of dsm/program/guards.cpp are made on another stack (dsm/pthreads/guards.cpp).
foreach(name acquire release abort)
  string(APPEND renamed "__cxa_guard_${name} __real___cxa_guard_${name}\n")
  string(APPEND renamed "__wrap___cxa_guard_${name} braid_shared_guard_${name}\n")
endforeach()
# The runtime's own memory is private.
foreach(name _Znwm _Znam _ZnwmRKSt9nothrow_t _ZnamRKSt9nothrow_t _ZnwmSt11align_val_t _ZnamSt11align_val_t _ZdlPv _ZdaPv
    _ZdlPvm _ZdaPvm _ZdlPvSt11align_val_t _ZdaPvSt11align_val_t _ZdlPvmSt11align_val_t _ZdaPvmSt11align_val_t)
  string(APPEND renamed "${name} braid_private${name}\n")
endforeach()
set(renames ${CMAKE_CURRENT_BINARY_DIR}/pthreads-renames.txt)
file(WRITE ${renames}.new "${renamed}")
file(COPY_FILE ${renames}.new ${renames} ONLY_IF_DIFFERENT)

set(all_renames ${CMAKE_BINARY_DIR}/lib/renames.txt)
set(braid_pthreads_object ${CMAKE_BINARY_DIR}/lib/braid_pthreads.o)
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
# All archives of the project that it needs, in one group, with the one that reads debugging information. Shared libraries
# come with the program, and so does the C++ language's, but for the demangler.
set(seen "")
set(words "")
braid_collect_link_words(braid_pthreads seen words)
set(archives "")
foreach(target ${seen})
  if(TARGET ${target})
    get_target_property(type ${target} TYPE)
    if(type STREQUAL "STATIC_LIBRARY" AND target MATCHES "^braid_" AND NOT target STREQUAL "braid_pthreads")
      list(APPEND archives ${target})
    endif()
  endif()
endforeach()
list(TRANSFORM archives REPLACE "(.+)" "$<TARGET_FILE:\\1>" OUTPUT_VARIABLE files)
list(APPEND files ${BRAID_BACKTRACE})
add_custom_command(OUTPUT ${braid_pthreads_object}
  COMMAND ${CMAKE_AR} x --output ${CMAKE_BINARY_DIR}/lib ${BRAID_SUPCXX} cp-demangle.o
  COMMAND ${CMAKE_LINKER} -r --force-group-allocation -o ${braid_pthreads_object}.whole
    --whole-archive $<TARGET_FILE:braid_pthreads> --no-whole-archive ${CMAKE_BINARY_DIR}/lib/cp-demangle.o
    --start-group ${files} --end-group
  # What is unique in a process (static variables of templates) stays global, under names of its own.
  COMMAND sh -c "cat ${renames} >${all_renames}; ${CMAKE_NM} ${braid_pthreads_object}.whole | \
    sed -n 's/^[0-9a-f]* u \\(.*\\)/\\1 braid_unique\\1/p' >>${all_renames}"
  COMMAND ${CMAKE_OBJCOPY} --redefine-syms=${all_renames} --wildcard --localize-symbol=_Z* --localize-symbol=__cxa_demangle
    --localize-symbol=__gcclibcxx_demangle_callback
    ${braid_pthreads_object}.whole ${braid_pthreads_object}
  COMMAND ${CMAKE_COMMAND} -E rm ${braid_pthreads_object}.whole
  DEPENDS braid_pthreads ${archives} ${renames}
  COMMENT "Joining the runtime of pthread programs" VERBATIM)
add_custom_target(braid_pthreads_runtime ALL DEPENDS ${braid_pthreads_object})
