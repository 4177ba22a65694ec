"""TLS on the control channel: against OpenSSL's own tools, with certificates of every kind, and while it changes."""

import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import time

import pytest

import simptls
from certificates import Issued
from session_pb2 import Login
from simpclient import Client, wait_all
from simpserver import BIN, HOST, Clients, Program, Server, free_port, until
import simpwire as wire

WRONG_PIN = "sha256:" + "ab" * 32


def s_client(port, *arguments, text=b""):
    """What OpenSSL's client says."""
    done = subprocess.run(
        ["openssl", "s_client", "-connect", f"{HOST}:{port}", *map(str, arguments)], input=text, capture_output=True,
        timeout=60)
    return (done.stdout + done.stderr).decode(errors="replace")


# -- The server, as OpenSSL's client sees it


def test_openssl_takes_the_server_by_its_certificate(server):
    said = s_client(
        server.port, "-CAfile", server.state / "server.crt", "-verify_return_error", "-verify_hostname", "localhost",
        "-servername", "localhost", "-alpn", "simp/1")
    assert "Verify return code: 0 (ok)" in said and "New, TLSv1.3" in said
    assert "ALPN protocol: simp/1" in said
    said = s_client(
        server.port, "-CAfile", server.state / "server.crt", "-verify_return_error", "-verify_ip", HOST)
    assert "Verify return code: 0 (ok)" in said, "who offers no protocol is let in"


def test_nothing_older_and_nothing_else(server):
    assert "alert protocol version" in s_client(server.port, "-tls1_2")
    assert "alert no application protocol" in s_client(server.port, "-alpn", "h2,http/1.1")
    assert "ALPN protocol: simp/1" in s_client(server.port, "-alpn", "h2,simp/1")


def test_openssl_resumes_without_early_data(server, tmp_path):
    session = tmp_path / "session"
    # It ends its input only after the ticket came.
    program = subprocess.Popen(
        ["openssl", "s_client", "-connect", f"{HOST}:{server.port}", "-sess_out", session], stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    until(lambda: session.exists() and session.read_bytes().endswith(b"-----END SSL SESSION PARAMETERS-----\n"))
    program.communicate(timeout=60)
    said = s_client(server.port, "-sess_in", session)
    assert "Reused, TLSv1.3" in said and "Early data was not sent" in said
    early = tmp_path / "early"
    early.write_bytes(b"x")
    assert "Early data was accepted" not in s_client(server.port, "-sess_in", session, "-early_data", early)


def test_python_resumes(server):
    context, session, resumed = simptls.context(), None, 0
    for _ in range(50):
        wrapped = simptls.wrap(socket.create_connection((HOST, server.port)), server.pin, context, session)
        resumed += wrapped.session_reused
        # The ticket comes with the first bytes.
        wrapped.sendall(wire.packet(wire.PING, Login(), sequence=1).encoded())
        wrapped.recv(1000)
        session = wrapped.session
        wrapped.close()
    assert resumed == 49


@pytest.mark.parametrize("hello", [
    b"GET / HTTP/1.1\r\n\r\n", b"\0" * 100, b"\x16\x03\x01\xff\xff" + b"\0" * 100, b"\x80\x2e\x01\x00\x02",
    wire.packet(wire.LOGIN, Login(token="t", protocol_min=1, protocol_max=1, outbox_id=1), sequence=1).encoded(),
])
def test_what_is_no_tls_is_told_so_and_let_go(server, hello):
    with socket.create_connection((HOST, server.port), timeout=30) as stream:
        stream.sendall(hello)
        answer = b""
        while data := stream.recv(1000):
            answer += data
    assert answer[:1] == b"\x15" and len(answer) == 7, "a TLS alert, and nothing else"


def test_a_handshake_takes_no_longer_than_a_login(server):
    """The 10 s of the login begin with the connection."""
    quiet, half = (socket.create_connection((HOST, server.port)) for _ in range(2))
    hello = ssl.MemoryBIO()
    try:
        simptls.context().wrap_bio(ssl.MemoryBIO(), hello).do_handshake()
    except ssl.SSLWantReadError:
        pass
    began = time.monotonic()
    half.sendall(hello.read()[:-1])
    for each in (quiet, half):
        each.settimeout(30)
        with each:
            assert each.recv(100) == b""
    assert time.monotonic() - began > 8


# -- The command line, before servers of every kind


@pytest.fixture
def stand_in():
    """OpenSSL's server with a certificate; what clients send is its output."""
    running = []

    def start(issued, *arguments):
        port = free_port()
        program = Program([
            "openssl", "s_server", "-accept", f"{HOST}:{port}", "-cert", issued.certificate, "-cert_chain",
            issued.certificate, "-key", issued.key_file, "-alpn", "simp/1", "-quiet", *arguments],
            stdin=subprocess.PIPE, errors="replace")  # at the end of its input it would hang up
        running.append(program)
        until(lambda: socket.socket().connect_ex((HOST, port)) == 0)
        return program, port

    yield start
    for each in running:
        each.process.kill()
        each.finish()


def said_by_simp(port, *trust, host=HOST, **environment):
    """`simp` with a token that nobody checks: its exit status, and what it says."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("SIMP_")}
    done = subprocess.run(
        [BIN / "simp", "send", "bob", "text", "--server", f"{host}:{port}", *map(str, trust)], timeout=60,
        capture_output=True, text=True, env=clean | {"SIMP_TOKEN": "a token", **environment}, cwd="/")
    return done.returncode, done.stderr


@pytest.mark.parametrize("kind, host, words", [
    (dict(), HOST, None),
    (dict(), "localhost", None),
    (dict(last_day=-1, first_day=-9), HOST, r"certificate expired on \d{4}-\d\d-\d\d"),
    (dict(first_day=1, last_day=9), HOST, r"not valid before \d{4}-\d\d-\d\d: is the clock"),
    (dict(names=["im.example.org", "*.example.net"]), "localhost",
     r"is for im\.example\.org, \*\.example\.net, not for localhost"),
    (dict(names=["localhost"]), HOST, r"is for localhost, not for 127\.0\.0\.1"),
])
def test_simp_says_what_is_wrong_with_a_certificate(stand_in, tmp_path, kind, host, words):
    root = Issued(tmp_path, "root", is_authority=True)
    middle = Issued(tmp_path, "middle", issuer=root, is_authority=True)
    program, port = stand_in(Issued(tmp_path, "leaf", issuer=middle, **kind), "-tls1_3")
    status, said = said_by_simp(port, "--ca", root.certificate, host=host)
    program.process.kill()
    program.finish()
    if words is None:
        # It logged in, and waited for an answer in vain.
        assert status == 3 and "no session with" in said and "a token" in program.text, said
    else:
        assert status == 3 and re.search(words, said), said
        assert "a token" not in program.text


def test_simp_says_whom_it_does_not_trust(stand_in, tmp_path):
    root = Issued(tmp_path, "root", is_authority=True)
    leaf = Issued(tmp_path, "leaf", issuer=root)
    alone = Issued(tmp_path, "alone")
    pin = simptls.pin_of(leaf.der)
    _, port = stand_in(leaf)
    for trust in ((), ("--ca", alone.certificate)):
        status, said = said_by_simp(port, *trust)
        assert status == 3 and "issued by CN = root, who is not trusted here" in said, said
    status, said = said_by_simp(port, "--pin", WRONG_PIN)
    assert status == 3 and pin in said and "not the pinned one" in said, said
    _, port = stand_in(alone)
    status, said = said_by_simp(port)
    assert status == 3 and "signed by itself" in said and simptls.pin_of(alone.der) in said, said


def test_simp_speaks_nothing_older(stand_in, tmp_path):
    _, port = stand_in(Issued(tmp_path, "alone"), "-tls1_2")
    status, said = said_by_simp(port, "--pin", WRONG_PIN)
    assert status == 3 and "does not speak TLS 1.3" in said, said


def test_simp_says_that_a_server_is_no_simp_server(tmp_path):
    with socket.create_server((HOST, 0)) as listener:
        port = listener.getsockname()[1]
        program = Program(
            [BIN / "simp", "send", "bob", "text", "--server", f"{HOST}:{port}", "--pin", WRONG_PIN],
            env=os.environ | {"SIMP_TOKEN": "t"})
        stream, _ = listener.accept()
        with stream:
            stream.recv(1000)
            stream.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            assert program.finish() == 3
    assert "does not speak TLS" in program.text


@pytest.mark.parametrize("arguments, words", [
    (["--pin", "sha256:12"], "64 hexadecimal digits"), (["--ca", "/nonexistent"], "No such file"),
    (["--ca", "/dev/null"], "not a regular file"), (["--pin", WRONG_PIN, "--ca", "x"], "one of them"),
    (["--tls", "off", "--pin", WRONG_PIN], "--pin"),
])
def test_misuse_of_trust_is_explained(arguments, words):
    status, said = said_by_simp(1, *arguments)
    assert status == 2 and words in said, said


def test_clear_text_leaves_this_machine_only_when_told():
    status, said = said_by_simp(7467, "--tls", "off", host="192.0.2.1")
    assert status == 3 and "another machine" in said


def test_the_pin_of_a_server_on_this_machine_is_found_beside_its_key(server):
    status, said = said_by_simp(server.port, "--key", server.state / "signing.key")
    assert status == 4 and "not a token" in said, "trusted, and refused for its token"
    status, said = said_by_simp(server.port, SIMP_PIN=server.pin)
    assert status == 4
    status, said = said_by_simp(server.port, SIMP_CA=str(server.state / "server.crt"))
    assert status == 4


# -- The server's certificate


def test_its_own_certificate_is_made_once_and_its_key_private(own_server):
    key, certificate = own_server.state / "server.key", own_server.state / "server.crt"
    assert key.stat().st_mode & 0o777 == 0o600
    files = [each.read_bytes() for each in (key, certificate)]
    assert simptls.pin_of(ssl.PEM_cert_to_DER_cert(certificate.read_text())) == own_server.pin
    own_server.program.wait_for(lambda: own_server.pin in own_server.program.text)
    assert any("ready" in line and "TLS 1.3" in line for line in own_server.program.out)
    assert own_server.stop() == 0
    own_server.start()
    assert [each.read_bytes() for each in (key, certificate)] == files
    for line in files[0].decode().splitlines()[1:-1]:
        assert line not in own_server.program.text


def test_another_certificate_after_a_hang_up(own_server, names, tmp_path):
    alice, bob = names("alice", "bob")
    before = own_server.pin
    with Clients(own_server) as clients:
        a = clients.online(alice)
        fresh = Issued(tmp_path, "fresh")
        for source, name in ((fresh.certificate, "server.crt"), (fresh.key_file, "server.key")):
            shutil.copy(source, own_server.state / name)
        own_server.program.process.send_signal(signal.SIGHUP)
        until(lambda: own_server.pin != before)
        assert own_server.pin == simptls.pin_of(fresh.der)
        own_server.program.wait_for(lambda: own_server.pin in own_server.program.text)
        b = clients.online(bob)
        with pytest.raises(simptls.WrongServer):
            Client(HOST, own_server.port, "", pin=before).connect()
        sent = [a.send(bob, "by the old session", by="tcp"), b.send(alice, "by the new one", by="tcp")]
        wait_all([a, b], lambda: all(each.is_final for each in sent))
        assert a.texts() == ["by the new one"] and b.texts() == ["by the old session"]


def test_a_bad_certificate_after_a_hang_up_changes_nothing(own_server):
    before = own_server.pin
    (own_server.state / "server.crt").write_text("nothing")
    own_server.program.process.send_signal(signal.SIGHUP)
    own_server.program.wait_for(lambda: "not reloaded" in own_server.program.text)
    assert "server.crt holds no certificate" in own_server.program.text
    Client(HOST, own_server.port, "", pin=before).connect().close()


def test_a_certificate_of_an_authority(tmp_path):
    root = Issued(tmp_path, "root", is_authority=True)
    middle = Issued(tmp_path, "middle", issuer=root, is_authority=True)
    leaf = Issued(tmp_path, "leaf", issuer=middle)
    server = Server(tmp_path / "s", "--tls-cert", leaf.certificate, "--tls-key", leaf.key_file).start()
    try:
        assert not (server.state / "server.key").exists() and server.pin == simptls.pin_of(leaf.der)
        said = s_client(server.port, "-CAfile", root.certificate, "-verify_return_error", "-verify_hostname", "localhost")
        assert "Verify return code: 0 (ok)" in said
        status, said = said_by_simp(server.port, "--ca", root.certificate, host="localhost")
        assert status == 4 and "not a token" in said
    finally:
        server.clean_up()


def test_certificates_that_cannot_be_used(tmp_path):
    one, other = Issued(tmp_path, "one"), Issued(tmp_path, "other")

    def refused(*arguments, status=1):
        done = subprocess.run(
            [BIN / "simp-server", "--state", tmp_path / "s", "--port", "0", "--udp-port", "0", *arguments],
            capture_output=True, text=True, timeout=60)
        assert done.returncode == status and "ready" not in done.stdout
        return done.stderr

    assert "--tls-key" in refused("--tls-cert", one.certificate, status=2)
    assert "--tls-cert" in refused("--tls-key", one.key_file, status=2)
    assert "--tls off" in refused("--tls", "off", "--tls-cert", one.certificate, "--tls-key", one.key_file, status=2)
    assert "is not the key of" in refused("--tls-cert", one.certificate, "--tls-key", other.key_file)
    other.key_file.write_text("no key")
    assert "holds no private key" in refused("--tls-cert", one.certificate, "--tls-key", other.key_file)
    assert "No such file" in refused("--tls-cert", tmp_path / "none", "--tls-key", one.key_file)
    one.key_file.chmod(0o644)
    assert "chmod" in refused("--tls-cert", one.certificate, "--tls-key", one.key_file)


def test_beyond_loopback_with_tls(tmp_path):
    server = Server(tmp_path, host="0.0.0.0").start()
    try:
        line = next(line for line in server.program.out if "ready" in line)
        assert "TLS 1.3" in line and "other machines too" in line and "CLEAR" not in line
    finally:
        server.clean_up()


def test_clear_text_on_loopback(names):
    alice, bob = names("alice", "bob")
    with tempfile.TemporaryDirectory(prefix="simp-") as state:
        server = Server(state, "--tls", "off").start()
        try:
            server.program.wait_for(lambda: any("warn" in each and "clear text" in each for each in server.program.err))
            assert any("ready" in line and "TLS off" in line for line in server.program.out)
            with Clients(server) as clients:
                a, b = clients.online(alice), clients.online(bob)
                sent = a.send(bob, "hello")
                wait_all([a, b], lambda: sent.is_final)
            status, said = said_by_simp(server.port, "--tls", "off")
            assert status == 4, said
            status, said = said_by_simp(server.port, "--pin", WRONG_PIN)
            assert status == 3 and "does not speak TLS" in said
        finally:
            server.clean_up()


def test_a_client_in_clear_text_is_told_that_the_server_is_not(server):
    status, said = said_by_simp(server.port, "--tls", "off")
    assert status == 3 and "speaks TLS, and this connection has TLS off" in said, said
