"""Key sets, algorithms and claims: section 4.2 of WIRE.md, against a server with keys of an issuer."""

import json
import signal
import subprocess
import tempfile
import time

import pytest

import tokens
from session_pb2 import (
    ERROR_TOKEN_AUDIENCE, ERROR_TOKEN_EXPIRED, ERROR_TOKEN_INVALID, ERROR_TOKEN_ISSUER, ERROR_TOKEN_KEY_UNKNOWN,
    ERROR_TOKEN_NOT_YET_VALID,
)
from simpclient import Refused, wait_all
from simpserver import BIN, Clients, Server

KEYS = {each: tokens.Key(each, f"{each.lower()}-1") for each in ("HS256", "RS256", "ES256")}
ISSUER = "https://id.example"


@pytest.fixture(scope="module")
def issued():
    """A server that takes tokens of one issuer, for one audience, without leeway."""
    with tempfile.TemporaryDirectory(prefix="simp-") as state:
        server = Server(state, "--audience", "chat", "--issuer", ISSUER, "--leeway", "0s")
        keys = tokens.write_set(server.state / "issuer.json", *KEYS.values())
        server.arguments += ("--keys", keys)
        server.start()
        yield server
        server.clean_up()


def claims(**changes):
    """Good claims; one given as None is left out."""
    fields = {"sub": "carol", "exp": int(time.time()) + 600, "aud": "chat", "iss": ISSUER} | changes
    return {name: value for name, value in fields.items() if value is not None}


def login(server, token):
    """The code that refuses the token, or the user it lets in."""
    with Clients(server) as clients:
        client = clients.new("carol", send_only=True)
        client.token = token
        try:
            return client.login().user
        except Refused as refused:
            assert refused.text and refused.retry_after_ms == 0
            return refused.code


@pytest.fixture(autouse=True)
def state_has_a_key(issued):
    """`Clients.new` makes a token of the state directory's key, which a server with --keys has none of."""
    path = issued.state / "signing.key"
    path.touch(mode=0o600)
    path.write_text("61" * 32)


@pytest.mark.parametrize("algorithm", KEYS)
def test_each_algorithm_lets_in(issued, algorithm):
    assert login(issued, KEYS[algorithm].token(claims())) == "carol"
    assert login(issued, KEYS[algorithm].token(claims(aud=["other", "chat"]))) == "carol"


def test_the_key_of_the_state_directory_is_none_of_the_issuers(issued):
    assert login(issued, issued.token("carol", aud="chat", iss=ISSUER)) == ERROR_TOKEN_KEY_UNKNOWN


def cases():
    now = int(time.time())
    return {
        "aud of another": (claims(aud="other"), ERROR_TOKEN_AUDIENCE),
        "no aud": (claims(aud=None), ERROR_TOKEN_AUDIENCE),
        "aud is a part": (claims(aud="cha"), ERROR_TOKEN_AUDIENCE),
        "aud is the usual one": (claims(aud="simp"), ERROR_TOKEN_AUDIENCE),
        "iss of another": (claims(iss="https://id.example.org"), ERROR_TOKEN_ISSUER),
        "no iss": (claims(iss=None), ERROR_TOKEN_ISSUER),
        "iss is a list": (claims(iss=[ISSUER]), ERROR_TOKEN_ISSUER),
        "expired by a second": (claims(exp=now - 1), ERROR_TOKEN_EXPIRED),
        "no exp": (claims(exp=None), ERROR_TOKEN_INVALID),
        "exp with a fraction": (claims(exp=now + 600.5), ERROR_TOKEN_INVALID),
        "exp in milliseconds and text": (claims(exp=f"{now}000"), ERROR_TOKEN_INVALID),
        "nbf to come": (claims(nbf=now + 60), ERROR_TOKEN_NOT_YET_VALID),
        "iat to come": (claims(iat=now + 60), ERROR_TOKEN_NOT_YET_VALID),
        "nbf is text": (claims(nbf="1"), ERROR_TOKEN_INVALID),
    }


@pytest.mark.parametrize("case", cases())
@pytest.mark.parametrize("algorithm", KEYS)
def test_claims(issued, algorithm, case):
    wrong, code = cases()[case]
    assert login(issued, KEYS[algorithm].token(wrong)) == code


@pytest.mark.parametrize("algorithm", KEYS)
def test_kids(issued, algorithm):
    key = KEYS[algorithm]
    for kid in ("", "none", key.kid.upper(), key.kid + "\0", "../" + key.kid, "../../../dev/null", "issuer.json", None):
        assert login(issued, key.token(claims(), kid=kid)) == ERROR_TOKEN_KEY_UNKNOWN, kid
    assert login(issued, key.token(claims(), kid=7)) == ERROR_TOKEN_INVALID
    other = next(each for each in KEYS.values() if each is not key)
    assert login(issued, key.token(claims(), kid=other.kid)) == ERROR_TOKEN_INVALID


@pytest.mark.parametrize("algorithm", ["RS256", "ES256"])
def test_a_public_key_is_no_secret(issued, algorithm):
    key = KEYS[algorithm]
    for secret in key.public_forms():
        for header in ({"alg": "HS256", "kid": key.kid}, {"alg": "hs256", "kid": key.kid}):
            assert login(issued, tokens.forged(header, claims(), secret)) == ERROR_TOKEN_INVALID
        assert login(issued, tokens.forged({"alg": "HS256", "kid": "hs256-1"}, claims(), secret)) == ERROR_TOKEN_INVALID


@pytest.mark.parametrize("algorithm", KEYS)
def test_keys_that_a_token_brings_along(issued, algorithm):
    stranger = tokens.Key(algorithm, "stranger")
    kid = KEYS[algorithm].kid
    for header in (
        {"jwk": stranger.jwk}, {"jku": "http://127.0.0.1:1/keys.json"}, {"x5u": "file:///etc/passwd"},
        {"x5c": ["AAAA"]}, {"jwk": stranger.jwk | {"kid": kid}},
    ):
        assert login(issued, stranger.token(claims(), kid=kid, **header)) == ERROR_TOKEN_INVALID, header
    assert login(issued, KEYS[algorithm].token(claims(), crit=["b64"], b64=False)) == ERROR_TOKEN_INVALID
    assert login(issued, KEYS[algorithm].token(claims(), jwk=stranger.jwk)) == "carol", "not looked at"


@pytest.mark.parametrize("alg", ["none", "None", "NONE", "nOnE", "", "HS384", "RS384", "PS256", "ES384", "EdDSA"])
def test_other_algorithms(issued, alg):
    for key in KEYS.values():
        good = key.token(claims())
        head = tokens.b64({"alg": alg, "kid": key.kid})
        body, signature = good.split(".")[1:]
        for token in (f"{head}.{body}.", f"{head}.{body}.{signature}", f"{head}.{body}", key.token(claims(), alg=alg)):
            assert login(issued, token) == ERROR_TOKEN_INVALID, token


def test_shapes(issued):
    for key in KEYS.values():
        good = key.token(claims())
        head, body, signature = good.split(".")
        twice = tokens.b64(json.dumps(claims()).encode()[:-1] + b', "sub": "alice"}')
        signed = f"{head}.{twice}"
        for token in (
            good + ".", "." + good, f"{good}.{signature}", f"{head}.{body}.{signature}=", f"{head}..{signature}",
            f"{head}.{body}.{signature[:-2]}", f"{signed}.{tokens.b64(key.sign(signed.encode()))}",
            f"{head}.{tokens.b64(b'[]')}.{signature}", key.token(claims(x="y" * 2500)),
        ):
            refused = login(issued, token)
            assert refused == ERROR_TOKEN_INVALID or len(token) > 3072, token


def test_a_reload_changes_keys_and_nobodys_session(tmp_path, names):
    alice, bob = names("alice", "bob")
    old, new = tokens.Key("ES256", "old"), tokens.Key("ES256", "new")
    server = Server(tmp_path)
    path = tokens.write_set(tmp_path / "issuer.json", old)
    server.arguments = ("--keys", path)
    server.token = lambda user: server.key.token({"sub": user, "exp": int(time.time()) + 600})
    server.key = old
    server.start()
    try:
        with Clients(server) as clients:
            a = clients.online(alice)
            # Broken: the old set stays.
            path.write_text('{"keys": [')
            server.program.process.send_signal(signal.SIGHUP)
            server.program.wait_for(lambda: "token keys not reloaded" in server.program.text)
            assert clients.login(bob).session.user == bob
            path.chmod(0o666)
            tokens.write_set(path, new, old)
            server.program.process.send_signal(signal.SIGHUP)
            server.program.wait_for(lambda: server.program.text.count("token keys not reloaded") == 2)
            path.chmod(0o644)  # public keys may be read by all
            server.program.process.send_signal(signal.SIGHUP)
            server.program.wait_for(lambda: "token keys reloaded" in server.program.text)
            server.key = new
            b = clients.online(bob)
            server.key = old
            tokens.write_set(path, new)
            server.program.process.send_signal(signal.SIGHUP)
            server.program.wait_for(lambda: server.program.text.count("token keys reloaded") == 2)
            with pytest.raises(Refused) as raised:
                clients.new(bob).login()
            assert raised.value.code == ERROR_TOKEN_KEY_UNKNOWN
            # The session of the old key goes on.
            sent = [a.send(bob, "by the old key", by="tcp"), b.send(alice, "by the new one", by="tcp")]
            wait_all([a, b], lambda: all(each.is_final for each in sent))
    finally:
        server.clean_up()


def run(*arguments, status=0):
    done = subprocess.run([str(each) for each in arguments], capture_output=True, text=True, timeout=60)
    assert done.returncode == status, done.stderr
    return done.stdout + done.stderr


def test_the_programs_make_keys_and_tokens(tmp_path):
    path = tmp_path / "keys.json"
    for algorithm in ("hs256", "rs256", "es256"):
        said = run(BIN / "simp-server", "genkey", "--algorithm", algorithm, "--kid", f"my {algorithm}", "--keys", path)
        assert f"simp token USER --key '{path}' --kid 'my {algorithm}'" in said
    assert path.stat().st_mode & 0o777 == 0o600
    before = path.read_text()
    assert "--replace" in run(BIN / "simp-server", "genkey", "--kid", "my hs256", "--keys", path, status=1)
    assert path.read_text() == before
    assert "none of" in run(BIN / "simp-server", "genkey", "--algorithm", "none", "--keys", path, status=2)
    server = Server(tmp_path / "s", "--keys", path, "--audience", "chat", "--issuer", ISSUER).start()
    try:
        assert not (server.state / "signing.key").exists()
        server.token = lambda user: ""

        def token(*more):
            return run(BIN / "simp", "token", "carol", "--key", path, "--audience", "chat", *more).strip()

        for algorithm in ("hs256", "rs256", "es256"):
            assert login(server, token("--issuer", ISSUER, "--kid", f"my {algorithm}")) == "carol"
        assert login(server, token("--issuer", ISSUER)) == "carol", "the last key signs"
        assert login(server, token()) == ERROR_TOKEN_ISSUER
        assert login(server, token("--issuer", ISSUER, "--not-before", "1h")) == ERROR_TOKEN_NOT_YET_VALID
        assert "my hs256" in run(BIN / "simp", "token", "carol", "--key", path, "--kid", "other", status=1)
        for line in before.splitlines():
            for part in line.split('"'):
                assert len(part) < 40 or part not in server.program.text, "a key is never logged"
    finally:
        server.clean_up()


def test_help_about_tokens():
    said = run(BIN / "simp-server", "help", "tokens")
    assert all(f"--{name}" in said for name in ("keys", "audience", "issuer", "leeway"))
    assert "tokens" in run(BIN / "simp-server", "help", "nothing", status=2)
    assert "help TOPIC" in run(BIN / "simp-server", "--help") and "genkey" in run(BIN / "simp-server", "help")


def test_a_key_file_that_is_not_good_keeps_the_server_from_starting(tmp_path):
    path = tmp_path / "keys.json"

    def complaint():
        return run(BIN / "simp-server", "--state", tmp_path / "s", "--port", "0", "--udp-port", "0", "--keys", path,
                   status=1)

    assert "no such signing key" in complaint()
    path.write_text("{}")
    assert "no JSON Web Key Set" in complaint()
    tokens.write_set(path, KEYS["HS256"])
    path.chmod(0o640)
    assert "chmod 600" in complaint()
