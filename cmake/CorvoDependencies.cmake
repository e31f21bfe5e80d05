# Every outside library as an imported target. tools/deps installs them.
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)

pkg_check_modules(RAFT REQUIRED IMPORTED_TARGET raft)
pkg_check_modules(UV REQUIRED IMPORTED_TARGET libuv)
pkg_check_modules(ROCKSDB REQUIRED IMPORTED_TARGET rocksdb)
pkg_check_modules(SQLITE REQUIRED IMPORTED_TARGET sqlite3)
pkg_check_modules(MICROHTTPD REQUIRED IMPORTED_TARGET libmicrohttpd)
pkg_check_modules(NGHTTP2 REQUIRED IMPORTED_TARGET libnghttp2)
pkg_check_modules(CURL REQUIRED IMPORTED_TARGET libcurl)
pkg_check_modules(SMARTCOLS REQUIRED IMPORTED_TARGET smartcols)
pkg_check_modules(NCURSES REQUIRED IMPORTED_TARGET ncursesw)
pkg_check_modules(ZLIB REQUIRED IMPORTED_TARGET zlib)
pkg_check_modules(CMOCKA IMPORTED_TARGET cmocka)

# libmicrohttpd uses its sockets through corvo-httpd/front/wire.h: a copy of the
# static library, in which recv, send and sendmsg have other names. It is the
# only way to see the bytes of a request before the library takes them, and to
# give it the head of an answer as a piece of text.
find_library(MICROHTTPD_ARCHIVE libmicrohttpd.a REQUIRED)
set(MICROHTTPD_COPY ${CMAKE_BINARY_DIR}/libmicrohttpd_wire.a)
add_custom_command(OUTPUT ${MICROHTTPD_COPY}
  COMMAND ${CMAKE_OBJCOPY} --redefine-sym recv=wire_recv
          --redefine-sym send=wire_send --redefine-sym sendmsg=wire_sendmsg
          ${MICROHTTPD_ARCHIVE} ${MICROHTTPD_COPY}
  DEPENDS ${MICROHTTPD_ARCHIVE} VERBATIM)
add_custom_target(microhttpd_copy DEPENDS ${MICROHTTPD_COPY})
pkg_check_modules(GNUTLS REQUIRED IMPORTED_TARGET gnutls)
add_library(corvo_microhttpd INTERFACE)
add_dependencies(corvo_microhttpd microhttpd_copy)
target_link_libraries(corvo_microhttpd INTERFACE ${MICROHTTPD_COPY}
  PkgConfig::GNUTLS Threads::Threads)

find_library(NNG_LIBRARY nng REQUIRED)
add_library(nng INTERFACE)
target_link_libraries(nng INTERFACE ${NNG_LIBRARY} Threads::Threads)

find_library(MSGPACK_LIBRARY msgpackc REQUIRED)
add_library(msgpack INTERFACE)
target_link_libraries(msgpack INTERFACE ${MSGPACK_LIBRARY})
