# How every C file of the project is compiled, and the two shapes of target.

set(CMAKE_C_STANDARD 11)
set(CMAKE_C_EXTENSIONS ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

set(CORVO_SANITIZE "" CACHE STRING "sanitizers, e.g. address,undefined")
option(CORVO_WERROR "treat warnings as errors" OFF)
option(CORVO_FAULTS "tests may make the disk slow and set the clock" OFF)

add_compile_options(-Wall -Wextra -Wshadow -Wstrict-prototypes
  -Wmissing-prototypes -Wformat=2 -Wundef -Wvla -Wpointer-arith
  -Wswitch-enum -fno-omit-frame-pointer -fno-strict-aliasing)
add_compile_definitions(_GNU_SOURCE)
if(CMAKE_C_COMPILER_ID STREQUAL "GNU")
  add_compile_options(-Woverride-init)
endif()
if(CORVO_WERROR)
  add_compile_options(-Werror)
endif()
if(CORVO_SANITIZE)
  add_compile_options(-fsanitize=${CORVO_SANITIZE} -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${CORVO_SANITIZE})
elseif(CMAKE_BUILD_TYPE STREQUAL "Release" OR
       CMAKE_BUILD_TYPE STREQUAL "RelWithDebInfo")
  add_compile_options(-fstack-protector-strong)
  add_compile_definitions(_FORTIFY_SOURCE=2)
endif()

# corvo_find_threads(TARGET SOURCES ... DEPS ...): TARGET has the property
# CORVO_THREADS if one of its sources starts a thread, or one of its
# dependencies has the property. The tests of such targets have the label
# `threads`, and `make analyze` runs those with ThreadSanitizer.
function(corvo_find_threads target)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  foreach(dep IN LISTS ARG_DEPS)
    if(TARGET ${dep})
      get_target_property(found ${dep} CORVO_THREADS)
      if(found)
        set_target_properties(${target} PROPERTIES CORVO_THREADS TRUE)
        return()
      endif()
    endif()
  endforeach()
  foreach(source IN LISTS ARG_SOURCES)
    get_filename_component(path ${source} ABSOLUTE)
    file(STRINGS ${path} found LIMIT_COUNT 1
      REGEX "(pthread_create|uv_queue_work|nng_aio_alloc)\\(")
    if(found)
      set_target_properties(${target} PROPERTIES CORVO_THREADS TRUE)
      return()
    endif()
  endforeach()
endfunction()

# corvo_library(NAME SOURCES ... DEPS ...): a static library whose headers are
# found as "folder/file.h" from the folder above it.
function(corvo_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC ${ARG_DEPS})
  corvo_find_threads(${name} ${ARGN})
endfunction()

# corvo_daemon(NAME SOURCES ... DEPS ...): a library of everything but main.c,
# so that tests can link it, and the executable of that name.
function(corvo_daemon name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  string(REPLACE "-" "_" lib ${name})
  add_library(${lib} STATIC ${ARG_SOURCES})
  target_include_directories(${lib} PUBLIC ${CMAKE_CURRENT_SOURCE_DIR})
  target_link_libraries(${lib} PUBLIC ${ARG_DEPS})
  corvo_find_threads(${lib} ${ARGN})
  add_executable(${name} main.c)
  target_link_libraries(${name} PRIVATE ${lib})
  install(TARGETS ${name} DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/corvo)
endfunction()
