# cmake -DSOURCE= -DBUILD= -DLAUNCHER= -P later_build.cmake: the programs of a
# later version, with one feature level and one operation more.
execute_process(COMMAND ${CMAKE_COMMAND} -S ${SOURCE} -B ${BUILD} -G Ninja
  -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_FLAGS_DEBUG=-O0 -DCORVO_EXTRA_OP=ON
  -DCORVO_FAULTS=ON -DCORVO_WERROR=OFF -DBUILD_TESTING=OFF
  -DCMAKE_C_COMPILER_LAUNCHER=${LAUNCHER}
  OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${CMAKE_COMMAND} --build ${BUILD} -j 2 --target
  corvo corvo-supervisor corvo-raftd corvo-viewd corvo-sched corvo-httpd
  COMMAND_ERROR_IS_FATAL ANY)
