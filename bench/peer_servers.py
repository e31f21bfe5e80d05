"""The servers of bench/peers.py: how each is installed and started.

Debian packages are installed by tools/deps, without their services; programs
in Go and clients are built in a folder of their own, and kept there. Servers
listen on 127.0.0.1 only, store under the temporary directory, and are ended
and removed after each measurement.
"""

import contextlib
import hashlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from pathlib import Path

from figures import SOURCE, wait_until
from node import free_port

CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
PLACE = CACHE / "corvo" / "peers"
CLIENTS = Path(__file__).with_name("peers")
INSTALL_S = 600
START_S = 60
STOP_S = 10
# Where Debian puts servers that are in nobody's PATH.
PATHS = os.pathsep.join([
    os.environ["PATH"], "/usr/sbin",
    *(str(p) for p in sorted(Path("/usr/lib/postgresql").glob("*/bin"),
                             reverse=True))])


class Missing(Exception):
    """Why a peer cannot be measured here."""


# --- installing ----------------------------------------------------------


def run(*command, **popen):
    """Runs it; what it said last is the reason when it fails."""
    try:
        subprocess.run(command, check=True, stdout=subprocess.PIPE,
                       stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                       text=True, errors="replace", timeout=INSTALL_S,
                       **popen)
    except subprocess.CalledProcessError as e:
        said = e.stdout.strip().splitlines() or ["without a word"]
        raise Missing(f"{command[0]} failed: {said[-1][:200]}") from e
    except subprocess.TimeoutExpired as e:
        raise Missing(f"{command[0]} took over {INSTALL_S} s") from e
    except OSError as e:
        raise Missing(f"{command[0]}: {e.strerror}") from e


def program(name, package):
    """The path of a program; its package is installed if it is missing."""
    if shutil.which(name, path=PATHS) is None:
        run(str(SOURCE / "tools" / "deps"), "package", package)
    found = shutil.which(name, path=PATHS)
    if found is None:
        raise Missing(f"package {package} has no {name}")
    return found


def go_env(**more):
    return {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-mod=mod",
            "GOBIN": str(PLACE / "bin"), **more}


def go_program(name, module):
    made = PLACE / "bin" / name
    if not made.exists():
        run("go", "install", module, env=go_env(GOFLAGS=""))
    return str(made)


def go_beside(name, package):
    """A program of the module that a peer's client is built with."""
    client(name)
    made = PLACE / name / "server"
    if not made.exists():
        run("go", "build", "-o", "server", package, cwd=made.parent,
            env=go_env())
    return str(made)


def client(name):
    """The command of a peer's client, built when its sources have changed."""
    sources = sorted(p for d in ("harness", name)
                     for p in (CLIENTS / d).iterdir())
    digest = hashlib.sha256(
        b"".join(p.read_bytes() for p in sources)).hexdigest()
    to = PLACE / name
    stamp = to / "stamp"
    is_go = (CLIENTS / name / "go.mod").exists()
    if not stamp.exists() or stamp.read_text() != digest:
        for d in ("harness", name):
            shutil.rmtree(PLACE / d, ignore_errors=True)
            shutil.copytree(CLIENTS / d, PLACE / d)
        if is_go:
            run("go", "mod", "tidy", cwd=to, env=go_env())
            run("go", "build", "-o", "client", ".", cwd=to, env=go_env())
        else:
            run("npm", "install", "--omit=dev", "--no-audit", "--no-fund",
                cwd=to)
        stamp.write_text(digest)
    return [str(to / "client")] if is_go else ["node", str(to / "client.js")]


# --- running -------------------------------------------------------------


def is_open(port):
    with contextlib.suppress(OSError), \
            socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


@contextlib.contextmanager
def folder(user=None):
    """Removed afterwards; `user` owns it where we are root."""
    place = Path(tempfile.mkdtemp(prefix="corvo-peer-"))
    try:
        if user is not None:
            shutil.chown(place, user)
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


def end(p):
    """It and all it has started, which are a group of their own."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(p.pid, signal.SIGTERM)
    try:
        p.wait(STOP_S)
    except subprocess.TimeoutExpired:
        pass
    with contextlib.suppress(ProcessLookupError):
        os.killpg(p.pid, signal.SIGKILL)
    p.wait(STOP_S)


@contextlib.contextmanager
def serving(place, port, *command, check=(), **popen):
    """A server, from when its port is open on, and `check` says yes."""
    said = place / f"{Path(command[0]).name}.log"
    with open(said, "wb") as log:
        p = subprocess.Popen(command, stdout=log, stderr=log, cwd=place,
                             stdin=subprocess.DEVNULL,
                             start_new_session=True, **popen)

        def ready():
            if p.poll() is not None:
                lines = said.read_text(errors="replace").strip().splitlines()
                last = (lines or ["nothing"])[-1]
                raise Missing(f"it ended at once and said: {last[:200]}")
            return is_open(port) and (not check or subprocess.run(
                check, capture_output=True).returncode == 0)

        try:
            wait_until(ready, START_S, command[0], every=0.05)
            yield
        finally:
            end(p)


@contextlib.contextmanager
def beanstalkd(*flags):
    path = program("beanstalkd", "beanstalkd")
    with folder() as d:
        port = free_port()
        given = [f.format(dir=d) for f in flags]
        with serving(d, port, path, "-l", "127.0.0.1", "-p", str(port),
                     *given):
            yield f"127.0.0.1:{port}"


REDIS_DURABLE = ["--appendonly", "yes", "--appendfsync", "always", "--save",
                 ""]


@contextlib.contextmanager
def redis():
    path = program("redis-server", "redis-server")
    with folder() as d:
        port = free_port()
        with serving(d, port, path, "--bind", "127.0.0.1", "--port",
                     str(port), "--dir", str(d), *REDIS_DURABLE):
            yield f"127.0.0.1:{port}"


@contextlib.contextmanager
def left_behind(path):
    """What a server writes there is removed, unless it was there before."""
    had = path.exists()
    try:
        yield
    finally:
        if not had:
            path.unlink(missing_ok=True)


@contextlib.contextmanager
def faktory():
    """It starts a Redis of its own, which is then told to flush."""
    path = go_beside("faktory", "github.com/contribsys/faktory/cmd/faktory")
    program("redis-server", "redis-server")
    with folder() as d, left_behind(Path("/tmp/redis.conf")):
        port = free_port()
        with serving(d, port, path, "-b", f"127.0.0.1:{port}", "-w",
                     f"127.0.0.1:{free_port()}", "-d", str(d), "-c", str(d),
                     "-l", "warn"):
            for name, value in zip(REDIS_DURABLE[::2], REDIS_DURABLE[1::2]):
                run("redis-cli", "-s", str(d / "redis.sock"), "config",
                    "set", name.removeprefix("--"), value)
            yield f"127.0.0.1:{port}"


RABBIT_DIR = Path("/usr/lib/rabbitmq/bin")


@contextlib.contextmanager
def rabbitmq():
    """With a name service of its own, which would outlive it otherwise."""
    program("rabbitmq-server", "rabbitmq-server")
    epmd = program("epmd", "erlang-base")
    user = "rabbitmq" if os.geteuid() == 0 else None
    as_user = {"user": user, "group": user} if user else {}
    with folder(user) as d:
        port, names, others = free_port(), free_port(), free_port()
        env = {**os.environ, "HOME": str(d), "ERL_EPMD_PORT": str(names),
               "ERL_EPMD_ADDRESS": "127.0.0.1",
               "RABBITMQ_NODENAME": f"bench{port}@localhost",
               "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
               "RABBITMQ_NODE_PORT": str(port),
               "RABBITMQ_DIST_PORT": str(others),
               "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS":
                   "-kernel inet_dist_use_interface {127,0,0,1}",
               "RABBITMQ_MNESIA_BASE": str(d), "RABBITMQ_LOG_BASE": str(d),
               "RABBITMQ_CONFIG_FILE": str(d / "none"),
               "RABBITMQ_CONF_ENV_FILE": str(d / "none"),
               "RABBITMQ_ENABLED_PLUGINS_FILE": str(d / "plugins"),
               "RABBITMQ_PID_FILE": str(d / "pid")}
        with serving(d, names, epmd, env=env, **as_user), \
                serving(d, port, str(RABBIT_DIR / "rabbitmq-server"),
                        env=env, **as_user):
            yield f"127.0.0.1:{port}"


@contextlib.contextmanager
def nats():
    path = go_program("nats-server",
                      "github.com/nats-io/nats-server/v2@v2.10.22")
    with folder() as d:
        port = free_port()
        conf = d / "nats.conf"
        conf.write_text(f"listen: 127.0.0.1:{port}\njetstream {{\n"
                        f"  store_dir: \"{d}\"\n  sync_interval: always\n"
                        "}\n")
        with serving(d, port, path, "-c", str(conf)):
            yield f"127.0.0.1:{port}"


@contextlib.contextmanager
def postgres():
    """It will not run as root."""
    initdb = program("initdb", "postgresql")
    user = "postgres" if os.geteuid() == 0 else None
    as_user = {"user": user, "group": user} if user else {}
    with folder(user) as d:
        port = free_port()
        run(initdb, "-D", str(d / "data"), "-A", "trust", "-U", "bench",
            cwd=d, **as_user)
        beside = Path(initdb).resolve().parent
        with serving(d, port, str(beside / "postgres"), "-D",
                     str(d / "data"), "-p", str(port), "-c",
                     "listen_addresses=127.0.0.1", "-c",
                     "max_connections=300", "-c",
                     f"unix_socket_directories={d}", **as_user,
                     check=[str(beside / "pg_isready"), "-h", "127.0.0.1",
                            "-p", str(port)]):
            yield f"postgres://bench@127.0.0.1:{port}/postgres"


@contextlib.contextmanager
def go_corvo():
    """Yields the port: it is measured by the program that measures ours."""
    sources = os.environ.get("CORVO_GO_DIR")
    if not sources:
        raise Missing("CORVO_GO_DIR does not say where its sources are")
    made = PLACE / "bin" / "corvo-go"
    made.parent.mkdir(parents=True, exist_ok=True)
    run("go", "build", "-o", str(made), "./cmd/corvo", cwd=sources,
        env=go_env(GOFLAGS="", CGO_ENABLED="1"))
    with folder() as d:
        port = free_port()
        with serving(d, port, str(made), "server", "--bootstrap", "--bind",
                     f"127.0.0.1:{port}", "--raft-bind",
                     f"127.0.0.1:{free_port()}", "--data-dir",
                     str(d / "data")):
            yield port
