# Writes OUT with the commit being built, only when it has changed. Run at
# every build, because a configure step would not see later commits. Outside a
# git checkout (a source archive) both are "unknown".
set(commit unknown)
set(built unknown)
find_program(GIT git)
if(GIT)
  execute_process(COMMAND ${GIT} -C ${SOURCE} log -1 --format=%h,%cs
    OUTPUT_VARIABLE head OUTPUT_STRIP_TRAILING_WHITESPACE
    ERROR_QUIET RESULT_VARIABLE failed)
  if(NOT failed AND head MATCHES "^([0-9a-f]+),([-0-9]+)$")
    set(commit ${CMAKE_MATCH_1})
    set(built ${CMAKE_MATCH_2})
  endif()
endif()
set(text "#ifndef CORVO_VERSION_H
#define CORVO_VERSION_H

#define CORVO_COMMIT \"${commit}\"
#define CORVO_BUILT  \"${built}\" /* day of the commit: builds repeat */

#endif
")
if(EXISTS ${OUT})
  file(READ ${OUT} old)
endif()
if(NOT "${text}" STREQUAL "${old}")
  file(WRITE ${OUT} "${text}")
endif()
