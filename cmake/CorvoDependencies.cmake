# Every outside library as an imported target. tools/deps installs them.
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)

pkg_check_modules(RAFT REQUIRED IMPORTED_TARGET raft)
pkg_check_modules(UV REQUIRED IMPORTED_TARGET libuv)
pkg_check_modules(ROCKSDB REQUIRED IMPORTED_TARGET rocksdb)
pkg_check_modules(SQLITE REQUIRED IMPORTED_TARGET sqlite3)
pkg_check_modules(MICROHTTPD REQUIRED IMPORTED_TARGET libmicrohttpd)
pkg_check_modules(CURL REQUIRED IMPORTED_TARGET libcurl)
pkg_check_modules(SMARTCOLS REQUIRED IMPORTED_TARGET smartcols)
pkg_check_modules(NCURSES REQUIRED IMPORTED_TARGET ncursesw)
pkg_check_modules(CMOCKA IMPORTED_TARGET cmocka)

find_library(NNG_LIBRARY nng REQUIRED)
add_library(nng INTERFACE)
target_link_libraries(nng INTERFACE ${NNG_LIBRARY} Threads::Threads)

find_library(MSGPACK_LIBRARY msgpackc REQUIRED)
add_library(msgpack INTERFACE)
target_link_libraries(msgpack INTERFACE ${MSGPACK_LIBRARY})
