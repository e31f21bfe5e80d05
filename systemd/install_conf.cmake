# Installs the settings file, which belongs to whoever runs the node: one that
# is there stays as it is, and a newer text lies beside it as corvo.conf.new.
# Not in the list of installed files, so that an uninstall keeps it too.
#
# Set by CMakeLists.txt: CONF_FROM, CONF_TO.

set(to "$ENV{DESTDIR}${CONF_TO}")
set(new "${to}.new")
if(NOT EXISTS "${to}")
  message(STATUS "Installing: ${to}")
  configure_file("${CONF_FROM}" "${to}" COPYONLY)
else()
  file(SHA256 "${CONF_FROM}" hash_from)
  file(SHA256 "${to}" hash_to)
  if(hash_from STREQUAL hash_to)
    message(STATUS "Up-to-date: ${to}")
    file(REMOVE "${new}")
  else()
    message(STATUS "Keeping: ${to} (the text of this version: ${new})")
    configure_file("${CONF_FROM}" "${new}" COPYONLY)
  endif()
endif()
