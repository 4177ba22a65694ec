import itertools
import os
import tempfile

import pytest

from simpserver import BIN, HOST, Clients, Program, Server

_numbers = itertools.count(1)


def pytest_addoption(parser):
    parser.addoption("--breaks", type=int, default=200, help="how many things test_breaks.py breaks for each seed")


@pytest.fixture(scope="session")
def server():
    """One server for all tests that leave it running; each test takes users of its own."""
    with tempfile.TemporaryDirectory(prefix="simp-") as state:
        server = Server(state).start()
        yield server
        try:
            status = server.stop()
        finally:
            server.clean_up()
        assert status == 0, f"simp-server ended with {status}\n{server.program.text[-4000:]}"


@pytest.fixture
def own_server():
    """A server that the test may stop and start."""
    with tempfile.TemporaryDirectory(prefix="simp-") as state:
        server = Server(state).start()
        yield server
        server.clean_up()


@pytest.fixture
def names():
    """Gives user names that no other test has."""
    return lambda *stems: [f"{stem}{next(_numbers)}" for stem in stems]


@pytest.fixture
def clients(server):
    with Clients(server) as clients:
        yield clients


@pytest.fixture(scope="session")
def server_without_inboxes():
    with tempfile.TemporaryDirectory(prefix="simp-") as state:
        server = Server(state, "--inbox-messages", "0").start()
        yield server
        server.clean_up()


@pytest.fixture
def clients_without_inboxes(server_without_inboxes):
    """Clients of a server that keeps nothing for who is away, or has no room."""
    with Clients(server_without_inboxes) as clients:
        yield clients


@pytest.fixture
def simp(server):
    """Starts `simp`; text is its standard input."""
    running = []

    def start(user, *arguments, text=None, token=None, host=HOST):
        environment = os.environ | {
            "SIMP_SERVER": f"{host}:{server.port}", "SIMP_TOKEN": token or server.token(user),
            "SIMP_PIN": server.pin}
        read, write = os.pipe()
        program = Program([BIN / "simp", *arguments], stdin=read, env=environment)
        os.close(read)
        with os.fdopen(write, "w", encoding="utf-8") as pipe:
            if text is not None:
                pipe.write(text)
        running.append(program)
        return program

    yield start
    for each in running:
        if each.process.poll() is None:
            each.stop()


@pytest.fixture(autouse=True)
def server_survives(request):
    """Whatever a test does to the server, it is there afterwards, with its session fixture's log on failure."""
    yield
    if "server" in request.fixturenames:
        server = request.getfixturevalue("server")
        assert server.program.process.poll() is None, f"simp-server died\n{server.program.text[-4000:]}"
