import itertools
import tempfile

import pytest

from simpserver import Clients, Server

_numbers = itertools.count(1)


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


@pytest.fixture(autouse=True)
def server_survives(request):
    """Whatever a test does to the server, it is there afterwards, with its session fixture's log on failure."""
    yield
    if "server" in request.fixturenames:
        server = request.getfixturevalue("server")
        assert server.program.process.poll() is None, f"simp-server died\n{server.program.text[-4000:]}"
