# What `braid-cc --pthreads` links: the runtime as one object, in which the program's names do not stand. The linker gives
# the program's own calls of pthread_create() and so on to __wrap_pthread_create() (dsm/pthreads/wrapped.txt); the runtime, which
# calls the C library's, says __real_pthread_create(). What C++ leaves in both, such as templates, is each one's own.
#
#   braid_pthreads.o       with the host of live runs
#   braid_pthreads_sim.o   with that of simulated ones; more is wrapped (wrapped_simulated.txt)
set(braid_pthreads_object "")
set(braid_pthreads_sim_object "")
if(NOT TARGET braid_pthreads OR BRAID_SANITIZE)
  return()
endif()

# The compiler plug-in of pthread programs, where that of charged ones can be built.
if(TARGET braid_charge_pass)
  add_library(braid_pthreads_pass MODULE ${PROJECT_SOURCE_DIR}/dsm/pthreads/compiler_plugin.cpp)
  set_target_properties(braid_pthreads_pass PROPERTIES PREFIX "" OUTPUT_NAME braid_pthreads
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
  target_include_directories(braid_pthreads_pass SYSTEM PRIVATE $<TARGET_PROPERTY:braid_charge_pass,INCLUDE_DIRECTORIES>)
  target_compile_options(braid_pthreads_pass PRIVATE $<TARGET_PROPERTY:braid_charge_pass,COMPILE_OPTIONS>)
endif()

# braid_pthreads_object(name WRAPPED files... WHOLE targets... LIBRARIES targets...): makes lib/<name>.o of the members of WHOLE,
# and what these and LIBRARIES link. Sets <name>_object and <name>_wraps.
function(braid_join_pthreads name)
  cmake_parse_arguments(arg "" "" "WRAPPED;WHOLE;LIBRARIES" ${ARGN})
  # By dsm/program: these serve the program's libraries, too.
  set(defined "sigaction|signal|chdir|__fread_chk|fopen|fopen64|fputs|fread|fread_unlocked|__fread_unlocked_chk|fwrite_unlocked|fputs_unlocked|setvbuf|setbuf|fwrite|getcwd|popen|puts|clock_gettime|clock_nanosleep|gettimeofday|nanosleep|poll|scandir|scandir64|sched_getaffinity|sched_setaffinity|select|sigsuspend|sigtimedwait|sigwait|sigwaitinfo|system|time|timer_create|read|__read_chk|pread|pread64|__pread_chk|__pread64_chk|readv|preadv|preadv64|preadv2|preadv64v2|write|pwrite|pwrite64|writev|pwritev|pwritev64|pwritev2|pwritev64v2|recv|__recv_chk|recvfrom|__recvfrom_chk|recvmsg|recvmmsg|send|sendto|sendmsg|sendmmsg|accept|accept4|connect|ppoll|__poll_chk|__ppoll_chk|pselect|epoll_wait|epoll_pwait|creat|creat64|__open_2|__open64_2|__openat_2|__openat64_2|close|fsync|fdatasync|wait|waitpid|wait3|wait4|waitid|msgsnd|msgrcv|semop|open|open64|openat|openat64|fcntl|fcntl64")
  # By dsm/live, for all that a bound compute node creates.
  if(braid_dsm IN_LIST arg_LIBRARIES)
    string(APPEND defined "|pthread_create")
  endif()
  set(wraps "")
  set(renamed "")
  set(lists "${arg_WRAPPED}")
  list(TRANSFORM lists PREPEND ${PROJECT_SOURCE_DIR}/dsm/pthreads/)
  foreach(file ${arg_WRAPPED})
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/dsm/pthreads/${file})
    file(STRINGS ${PROJECT_SOURCE_DIR}/dsm/pthreads/${file} wrapped)
    foreach(symbol ${wrapped})
      list(APPEND wraps "--wrap=${symbol}")
      # The others are defined by the program, or by the runtime itself.
      if(NOT symbol MATCHES "^(main|${defined})$")
        string(APPEND renamed "${symbol} __real_${symbol}\n")
      endif()
    endforeach()
  endforeach()
  # Function-local statics: the calls of dsm/program/guards.cpp are made on another stack (dsm/pthreads/guards.cpp).
  foreach(call acquire release abort)
    string(APPEND renamed "__cxa_guard_${call} __real___cxa_guard_${call}\n")
    string(APPEND renamed "__wrap___cxa_guard_${call} braid_shared_guard_${call}\n")
  endforeach()
  # The runtime's own memory is private.
  foreach(symbol _Znwm _Znam _ZnwmRKSt9nothrow_t _ZnamRKSt9nothrow_t _ZnwmSt11align_val_t _ZnamSt11align_val_t _ZdlPv _ZdaPv
      _ZdlPvm _ZdaPvm _ZdlPvSt11align_val_t _ZdaPvSt11align_val_t _ZdlPvmSt11align_val_t _ZdaPvmSt11align_val_t)
    string(APPEND renamed "${symbol} braid_private${symbol}\n")
  endforeach()
  set(renames ${CMAKE_CURRENT_BINARY_DIR}/${name}-renames.txt)
  file(WRITE ${renames}.new "${renamed}")
  file(COPY_FILE ${renames}.new ${renames} ONLY_IF_DIFFERENT)

  set(all_renames ${CMAKE_BINARY_DIR}/lib/${name}-renames.txt)
  set(object ${CMAKE_BINARY_DIR}/lib/${name}.o)
  set(folder ${CMAKE_BINARY_DIR}/lib/${name})
  file(MAKE_DIRECTORY ${folder})
  # All archives of the project that it needs, in one group, with the one that reads debugging information. Shared libraries
  # come with the program, and so does the C++ language's, but for the demangler.
  set(seen "")
  set(words "")
  foreach(target ${arg_WHOLE} ${arg_LIBRARIES})
    braid_collect_link_words(${target} seen words)
  endforeach()
  set(archives "")
  foreach(target ${seen})
    if(TARGET ${target})
      get_target_property(type ${target} TYPE)
      if(type STREQUAL "STATIC_LIBRARY" AND target MATCHES "^braid_" AND NOT target IN_LIST arg_WHOLE)
        list(APPEND archives ${target})
      endif()
    endif()
  endforeach()
  list(TRANSFORM archives REPLACE "(.+)" "$<TARGET_FILE:\\1>" OUTPUT_VARIABLE files)
  list(TRANSFORM arg_WHOLE REPLACE "(.+)" "$<TARGET_FILE:\\1>" OUTPUT_VARIABLE whole)
  list(APPEND files ${BRAID_BACKTRACE})
  add_custom_command(OUTPUT ${object}
    COMMAND ${CMAKE_AR} x --output ${folder} ${BRAID_SUPCXX} cp-demangle.o
    COMMAND ${CMAKE_LINKER} -r --force-group-allocation -T ${PROJECT_SOURCE_DIR}/cmake/runtime_text.ld -o ${object}.whole
      --whole-archive ${whole} --no-whole-archive ${folder}/cp-demangle.o
      --start-group ${files} --end-group
    # What is unique in a process (static variables of templates) stays global, under names of its own.
    COMMAND sh -c "cat ${renames} >${all_renames}; ${CMAKE_NM} ${object}.whole | \
      sed -n 's/^[0-9a-f]* u \\(.*\\)/\\1 braid_unique\\1/p' >>${all_renames}"
    COMMAND ${CMAKE_OBJCOPY} --redefine-syms=${all_renames} --wildcard --localize-symbol=_Z* --localize-symbol=__cxa_demangle
      --localize-symbol=__gcclibcxx_demangle_callback
      ${object}.whole ${object}
    COMMAND ${CMAKE_COMMAND} -E rm ${object}.whole
    COMMAND sh -c "if ${CMAKE_NM} ${object} | grep ' [TW] __real_'; then echo 'defined by the runtime itself, and renamed' >&2; exit 1; fi"
    COMMAND sh ${PROJECT_SOURCE_DIR}/cmake/check_wrapped.sh ${CMAKE_NM} ${object} $<TARGET_FILE:braid_pthreads_calls> ${lists}
    DEPENDS ${arg_WHOLE} ${archives} ${renames} ${PROJECT_SOURCE_DIR}/cmake/runtime_text.ld
      braid_pthreads_calls ${lists} ${PROJECT_SOURCE_DIR}/cmake/check_wrapped.sh
    COMMENT "Joining the runtime of pthread programs: ${name}" VERBATIM)
  set(${name}_object ${object} PARENT_SCOPE)
  set(${name}_wraps "${wraps}" PARENT_SCOPE)
endfunction()

braid_join_pthreads(braid_pthreads WRAPPED wrapped.txt WHOLE braid_pthreads LIBRARIES braid_dsm_once braid_dsm)
if(TARGET braid_dsm_sim)
  braid_join_pthreads(braid_pthreads_sim WRAPPED wrapped.txt wrapped_simulated.txt
    WHOLE braid_pthreads braid_pthreads_simulated braid_charge_budget LIBRARIES braid_dsm_sim)
endif()
add_custom_target(braid_pthreads_runtime ALL DEPENDS ${braid_pthreads_object} ${braid_pthreads_sim_object})
