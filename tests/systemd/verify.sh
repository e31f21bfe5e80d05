#!/bin/sh
# verify.sh SOURCE_DIR BUILD_DIR: are the installed units, user, directories
# and settings file right? Installs only the systemd folder, into a temporary
# root, and asks systemd's own tools.
set -eu

source_dir=$1
build_dir=$2
export LC_ALL=C SYSTEMD_LOG_LEVEL=warning

if ! command -v systemd-analyze >/dev/null; then
	echo "SKIP: systemd-analyze is not installed"
	exit 77
fi

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
failed=0

fail() {
	echo "FAIL: $*"
	failed=1
}

DESTDIR=$root cmake --install "$build_dir/systemd" >/dev/null

unit_dir=$(dirname "$(find "$root" -name corvo.target)")
conf=$(find "$root" -path '*/etc/corvo/corvo.conf')
sysusers=$(find "$root" -path '*/sysusers.d/corvo.conf')
tmpfiles=$(find "$root" -path '*/tmpfiles.d/corvo.conf')
for file in "$unit_dir/corvo.target" "$conf" "$sysusers" "$tmpfiles"; do
	[ -f "$file" ] || fail "not installed: $file"
done

if grep -rn '@[A-Z_]*@' "$unit_dir"; then
	fail "a unit holds a placeholder"
fi

# Units name programs and the settings file by installed paths; the programs
# need not be built here, so each is stood in for by a script.
for path in $(sed -n 's/^ExecStart=\([^ ]*\).*/\1/p' "$unit_dir"/*.service |
	sort -u); do
	mkdir -p "$root$(dirname "$path")"
	printf '#!/bin/sh\n' >"$root$path"
	chmod 755 "$root$path"
	sed -i "s|^ExecStart=$path|ExecStart=$root$path|" "$unit_dir"/*.service
done
for path in $(sed -n 's/^ExecStart=.*--config \([^ ]*\).*/\1/p' \
	"$unit_dir"/*.service | sort -u); do
	# Those of instances are written by whoever wants them.
	case $path in */%i.conf) continue ;; esac
	[ -f "$root$path" ] || fail "$path is named by a unit, not installed"
done

# An instance, because a template cannot be checked by itself.
cp "$unit_dir/corvo-httpd@.service" "$unit_dir/corvo-httpd@0.service"
for node in n1 n2 n3; do
	cp "$unit_dir/corvo@.service" "$unit_dir/corvo@$node.service"
done
for unit in "$unit_dir"/corvo*.service "$unit_dir"/corvo*.socket \
	"$unit_dir"/corvo.target; do
	case $unit in *@.service) continue ;; esac
	out=$(SYSTEMD_UNIT_PATH="$unit_dir:" \
		systemd-analyze verify --man=no "$unit" 2>&1) || true
	# Complaints about units of this machine are not ours.
	out=$(printf '%s\n' "$out" | grep -i corvo || true)
	[ -z "$out" ] || fail "$(basename "$unit"): $out"
done

# The two ways to run a node exclude each other. Without an order as well, the
# port and the data would be taken before the other has let go of them.
for unit in "$unit_dir"/corvo-*.service "$unit_dir"/corvo-*.socket; do
	for line in Conflicts=corvo.service After=corvo.service; do
		grep -qx "$line" "$unit" ||
			fail "$(basename "$unit") lacks $line"
	done
done

# Exposure of at most 2.5 of 10, and the rules every service must keep.
for unit in "$unit_dir"/corvo*.service; do
	name=$(basename "$unit")
	for line in Type=notify NoNewPrivileges=yes ProtectSystem=strict \
		User=corvo LimitNOFILE=65536; do
		grep -qx "$line" "$unit" || fail "$name lacks $line"
	done
	grep -q '^WatchdogSec=' "$unit" || fail "$name lacks WatchdogSec="
	case $unit in *@.service) continue ;; esac
	systemd-analyze security --offline=true --threshold=25 --no-pager \
		"$unit" >"$root/security" 2>&1 ||
		fail "$name: $(tail -n 1 "$root/security")"
done

# The user can be made, and the directories belong to it.
if [ "$(id -u)" = 0 ]; then
	mkdir -p "$root/etc"
	systemd-sysusers --root="$root" "$sysusers" 2>"$root/sysusers" ||
		fail "sysusers: $(cat "$root/sysusers")"
	grep -q '^corvo:' "$root/etc/passwd" || fail "no user corvo"
	systemd-tmpfiles --root="$root" --create "$tmpfiles" || fail "tmpfiles"
	for dir in var/lib/corvo run/corvo; do
		[ "$(stat -c %a "$root/$dir")" = 750 ] || fail "mode of /$dir"
	done
fi

# Nodes of one machine share nothing but the programs and the secret.
unit=$unit_dir/corvo@.service
for setting in NODE_ID DATA_DIR RUN_DIR; do
	grep -q "^Environment=CORVO_$setting=.*%i$" "$unit" ||
		fail "corvo@.service: all instances have one $setting"
done
for dir in StateDirectory RuntimeDirectory; do
	grep -qx "$dir=corvo-%i" "$unit" || fail "corvo@.service: $dir"
done
examples=$(dirname "$(find "$root" -path '*/examples/n1.conf')")
for key in bind raft_bind; do
	[ "$(sed -n "s/^$key = //p" "$examples"/*.conf | sort -u |
		wc -l)" = 3 ] || fail "examples: $key is not one for each node"
done
for node in n1 n2 n3; do
	address=$(sed -n 's/^raft_bind = //p' "$examples/$node.conf")
	others=$(grep -l "join = .*$address" "$examples"/*.conf |
		grep -vc "/$node.conf")
	[ "$others" = 2 ] || fail "examples: not both others join $address"
	! grep -q "join = .*$address" "$examples/$node.conf" ||
		fail "examples: $node joins itself"
	out=$("$build_dir/cli/corvo" config check "$examples/$node.conf" \
		2>&1) || fail "examples: $node.conf: $out"
done

python3 "$source_dir/tests/systemd/check_conf.py" \
	"$source_dir/common/proto/defs/settings.def" "$conf" || failed=1

[ "$failed" = 0 ] && echo "systemd files are right"
exit "$failed"
