#!/bin/bash
# The black-box tests of tests/http against a follower of a cluster of three.
#
#   tests/cluster/suite.sh [BUILD_DIR] [PYTEST ARGUMENT ...]
#
# BUILD_DIR: build/asan. Tests about one node alone are listed in suite.txt,
# each with the reason, and left out. Too slow for every run of make test.
set -euo pipefail

source=$(cd "$(dirname "$0")/../.." && pwd)
build=$source/build/asan
if [ $# -gt 0 ] && [ -d "$1/cli" ]; then
	build=$(cd "$1" && pwd)
	shift
fi
leave_out=()
while read -r name _; do
	case $name in
	'' | '#'*) ;;
	*) leave_out+=(--deselect "tests/http/$name") ;;
	esac
done <"$source/tests/cluster/suite.txt"

cd "$source"
export CORVO_TEST_NODES=3 CORVO_BUILD_DIR=$build CORVO_SOURCE_DIR=$source
export PYTHONPATH=$source/tests/lib PYTHONDONTWRITEBYTECODE=1
exec /usr/bin/python3 -m pytest -q -p no:cacheprovider --rootdir "$source" \
	"${leave_out[@]}" "${@:-tests/http}"
