"""The server as a service: exposure of the unit, a confined server that does all its work, the service manager told."""

import contextlib
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time

import pytest

import simpclient
import unit
from simpserver import BIN, Clients, Server

USER = 61184  # the first of the numbers that DynamicUser= takes


@pytest.fixture(scope="module")
def confine(tmp_path_factory):
    program = tmp_path_factory.mktemp("confine") / "confine"
    source = pathlib.Path(__file__).parent / "confine.c"
    subprocess.run(["gcc", "-O1", "-Wall", "-Werror", "-o", program, source, "-lseccomp"], check=True, timeout=60)
    return program


@contextlib.contextmanager
def home():
    """A place that USER can read, with copies of the programs and a state directory that is USER's."""
    with tempfile.TemporaryDirectory(prefix="simp-") as name:
        place = pathlib.Path(name)
        place.chmod(0o755)
        libraries = place / "lib"
        libraries.mkdir()
        for program in ("simp-server", "simp"):
            shutil.copy(BIN / program, place / program)
        listing = subprocess.run(["ldd", BIN / "simp-server"], check=True, capture_output=True, text=True).stdout
        for line in listing.splitlines():
            path = line.split("=>")[-1].split("(")[0].strip()
            # The runtime of Swift may stand where only its owner can read.
            if "wift" in path or "Foundation" in path:
                shutil.copy(path, libraries)
        state = place / "state"
        state.mkdir(mode=0o700)
        os.chown(state, USER, USER)
        yield place


@pytest.fixture(params=[()])
def confined(confine, request):
    """A server under the unit's confinement; without the calls that the parameter names."""
    calls = unit.system_calls() - set(request.param)
    with home() as place:
        (place / "calls").write_text("\n".join(sorted(calls)))
        server = Server(place / "state")
        server.bin = place
        server.launcher = [
            "env", f"LD_LIBRARY_PATH={place / 'lib'}", confine, USER, place / "state", place / "calls"]
        yield server
        if server.program:
            server.clean_up()


def status_of(process):
    lines = pathlib.Path(f"/proc/{process}/status").read_text().splitlines()
    return {key: value.strip() for key, value in (line.split(":", 1) for line in lines)}


def children(process):
    return [int(each) for each in pathlib.Path(f"/proc/{process}/task/{process}/children").read_text().split()]


def test_the_exposure_is_low():
    assert unit.exposure() < 2.0


def test_the_unit_is_well_formed(tmp_path):
    # Where the unit looks for the server there may be none yet.
    copy = tmp_path / "simp-server.service"
    copy.write_text(unit.UNIT.read_text().replace("/usr/local/bin/simp-server", "/bin/true"))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(copy)], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_everything_works_confined(confined):
    confined.start()
    process = confined.program.process.pid
    redis = children(process)
    assert len(redis) == 1
    for each in (process, *redis):
        status = status_of(each)
        assert status["Uid"].split() == [str(USER)] * 4
        assert status["NoNewPrivs"] == "1" and status["Seccomp"] == "2"
        assert int(status["CapEff"], 16) == int(status["CapBnd"], 16) == 0
    with Clients(confined) as clients:
        alice, bob = clients.online("alice"), clients.online("bob")
        sent = [alice.send("bob", f"line {number}") for number in range(50)]
        simpclient.wait_all([alice, bob], lambda: all(each.is_final for each in sent), timeout=20)
        assert bob.texts("alice") == [f"line {number}" for number in range(50)]
    # A new certificate, after a hang-up.
    confined.program.process.send_signal(signal.SIGHUP)
    confined.program.wait_for(lambda: "certificate reloaded" in confined.program.text)
    # Its Redis dies and is started again.
    os.kill(redis[0], signal.SIGKILL)
    confined.program.wait_for(lambda: children(process) not in (redis, []))
    assert confined.stop() == 0
    assert not [line for line in confined.program.text.splitlines() if "not permitted" in line]


@pytest.mark.parametrize("confined", [("bind",)], indirect=True, ids=["bind"])
def test_the_list_is_in_force(confined):
    """Without a call that the server needs it does not start, and says why: the launcher does confine."""
    with pytest.raises(AssertionError):
        confined.start()
    assert confined.program.finish() == 1
    assert "Operation not permitted" in confined.program.text


def test_the_service_manager_is_told(tmp_path):
    path = tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager, tempfile.TemporaryDirectory() as state:
        manager.bind(str(path))
        manager.settimeout(20)
        server = Server(state)
        server.launcher = ["env", f"NOTIFY_SOCKET={path}", "WATCHDOG_USEC=600000"]
        server.start()
        try:
            said = []

            def until(word):
                end = time.monotonic() + 20
                while not said or word not in said[-1]:
                    assert time.monotonic() < end, said
                    said.append(manager.recv(4096).decode())

            until("READY=1")
            until("WATCHDOG=1")
            until("WATCHDOG=1")
            server.program.process.send_signal(signal.SIGHUP)
            until("RELOADING=1")
            assert "MONOTONIC_USEC=" in said[-1]
            until("READY=1")
            server.program.process.send_signal(signal.SIGTERM)
            until("STOPPING=1")
        finally:
            server.clean_up()
