# The commands people type. Everything else is CMake: see CMakePresets.json.
#
#   make run            a node on http://127.0.0.1:8080, its data in ./data
#   make cluster        three nodes, http://127.0.0.1:8080 to 8082, in
#                       ./data-cluster
#   make test           every test; the last line says how many
#   make sim            clusters in a simulated world: SEEDS=1000 of them, or
#                       SEED=7 VERBOSE=1, or SEED=7 MINIMISE=1
#   make fuzz           readers of bytes from outside, MINUTES=10 each; needs
#                       clang. FUZZ="json msg": only those; JOBS=8 at a time
#   make analyze        clang-tidy, gcc's analyzer, ThreadSanitizer. ONLY=tidy,
#                       FILES="common corvo-raftd/fsm": a part of it
#   make coverage       lines and branches of common and corvo-raftd that the
#                       tests come to; fails below the shares it asks for
#   make build          what make run starts, in build/release
#   make benches        the programs of bench/, in build/release
#   make bench          speed beside nginx on this machine, by all of them
#   make install        PREFIX=/usr/local DESTDIR=; keeps an edited corvo.conf
#   make uninstall      DESTDIR=; keeps settings and data
#   make format docs clean

PREFIX    ?= /usr/local
DESTDIR   ?=
# More flags for the node of make run, e.g. RUN_FLAGS=--bind=127.0.0.1:9000
RUN_FLAGS ?=
# More flags for all nodes of make cluster, e.g. CLUSTER_FLAGS=--log-level=debug
CLUSTER_FLAGS ?=
# More arguments for ctest, e.g. CTEST_FLAGS="-L unit"
CTEST_FLAGS ?=

launcher := $(if $(shell command -v ccache),-DCMAKE_C_COMPILER_LAUNCHER=ccache)
# Tests spend most of their time waiting, so two fit on each processor.
jobs     := $(shell expr 2 \* $$(nproc 2>/dev/null || echo 2))

# Of make sim.
SEEDS     ?= 1000
SEED      ?= 0

# Of make fuzz.
MINUTES   ?= 10
FUZZ      ?=
JOBS      ?= $(shell nproc 2>/dev/null || echo 2)

# Of make analyze.
ONLY      ?= tidy,gcc,threads
FILES     ?=

# Of make coverage: least percentages, and how many files it names.
LINES     ?= 90
BRANCHES  ?= 75
SHOW      ?= 10

.PHONY: run cluster build test sim fuzz analyze coverage benches bench \
	install uninstall format docs clean

run: build
	build/release/cli/corvo server --data-dir ./data $(RUN_FLAGS)

cluster: build
	@tools/cluster $(CLUSTER_FLAGS)

build:
	@tools/deps build
	@cmake --preset release -DBUILD_TESTING=OFF \
		-DCMAKE_INSTALL_PREFIX=$(PREFIX) $(launcher) >/dev/null
	@cmake --build --preset release

test: build
	@tools/deps build test
	@cmake --preset asan $(launcher) \
		-DCORVO_RELEASE_DIR=$(CURDIR)/build/release >/dev/null
	@cmake --build --preset asan
	@status=0; \
	ctest --test-dir build/asan -j$(jobs) --output-on-failure \
		--test-output-size-passed 1000000 \
		--output-junit junit.xml $(CTEST_FLAGS) || status=$$?; \
	tools/count-tests build/asan/junit.xml || status=1; \
	exit $$status

sim:
	@tools/deps build test
	@cmake --preset sim $(launcher) >/dev/null
	@cmake --build --preset sim
	CORVO_TEST_SEEDS=$(SEEDS) CORVO_TEST_SEED=$(SEED) \
	CORVO_TEST_JOBS=$$(nproc) $(if $(VERBOSE),VERBOSE=1) \
	$(if $(MINIMISE),MINIMISE=1) \
		build/sim/tests/sim/test_sim_whole

fuzz:
	@tools/deps build test clang
	@cmake --preset fuzz $(launcher) >/dev/null
	@cmake --build --preset fuzz
	tests/fuzz/run.py --minutes $(MINUTES) --jobs $(JOBS) $(FUZZ)

analyze:
	@tools/deps build test clang
	@cmake --preset tsan $(launcher) >/dev/null
	@cmake --build build/tsan --target \
		$(if $(findstring threads,$(ONLY)),test_threads,corvo_version)
	@tests/analyze/analyze.py build/tsan --only $(ONLY) --jobs $(JOBS) \
		$(FILES)

# What a run leaves adds to what is there, so it begins with none. A test that
# fails for the slowness of this build is for make test to judge.
coverage:
	@tools/deps build test
	@cmake --preset coverage $(launcher) >/dev/null
	@cmake --build --preset coverage
	@find build/coverage -name '*.gcda' -delete
	-@ctest --test-dir build/coverage -j$(jobs) -LE 'tidy|docs|deploy' \
		$(CTEST_FLAGS) >build/coverage/ctest.log
	@tests/coverage.py build/coverage --show $(SHOW) \
		--least-lines $(LINES) --least-branches $(BRANCHES)

benches: build
	@tools/deps build bench
	@cmake --build --preset release --target benches

bench: benches
	bench/run

install: build
	DESTDIR=$(DESTDIR) cmake --install build/release --prefix $(PREFIX)

uninstall:
	tools/uninstall build/release/install_manifest.txt $(DESTDIR)

format:
	git ls-files '*.c' '*.h' | xargs clang-format -i

docs: build
	cmake --build --preset release --target docs --target wire-lock
	build/release/cli/corvo help --markdown >docs/reference/cli.md

clean:
	rm -rf build
