#!/bin/sh
# install.sh SOURCE_DIR BUILD_DIR: what make install and make uninstall do to
# a settings file that somebody has edited. Everything is in a temporary root.
set -eu

source_dir=$1
build_dir=$2
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT

fail() {
	echo "FAIL: $*"
	exit 1
}

install_all() {
	DESTDIR=$root cmake --install "$build_dir" --prefix /usr/local \
		>"$root.log" || fail "$(cat "$root.log")"
	rm -f "$root.log"
}

install_all
conf=$(find "$root" -name corvo.conf -path '*/etc/corvo/*')
[ -f "$conf" ] || fail "no settings file"
cmp "$source_dir/systemd/corvo.conf" "$conf" || fail "not the one of here"

install_all
[ ! -e "$conf.new" ] || fail "a copy beside the same file"

echo 'log_level = debug' >>"$conf"
cp "$conf" "$root/edited"
install_all
cmp "$root/edited" "$conf" || fail "an edited settings file was replaced"
cmp "$source_dir/systemd/corvo.conf" "$conf.new" || fail "no corvo.conf.new"

"$source_dir/tools/uninstall" "$build_dir/install_manifest.txt" "$root" \
	>/dev/null || fail "uninstall"
cmp "$root/edited" "$conf" || fail "the settings are gone"
left=$(find "$root" -type f ! -path "$root/edited" ! -path "$conf*")
[ -z "$left" ] || fail "left behind: $left"
[ -z "$(find "$root" -type d -path '*/libexec/corvo')" ] ||
	fail "left behind: libexec/corvo"

if "$source_dir/tools/uninstall" "$build_dir/install_manifest.txt" "$root" \
	2>/dev/null; then
	fail "an uninstall without a list says nothing"
fi
echo "make install keeps what is not its own"
