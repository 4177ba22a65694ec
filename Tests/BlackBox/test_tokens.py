"""Key sets, algorithms and claims: section 4.2 of WIRE.md, against a server with keys of an issuer."""

import json
import os
import signal
import subprocess
import tempfile
import time

import pytest

import simpwire as wire
import tokens
from session_pb2 import (
    ERROR_FORBIDDEN, ERROR_NAME_INVALID, ERROR_TOKEN_AUDIENCE, ERROR_TOKEN_EXPIRED, ERROR_TOKEN_INVALID,
    ERROR_TOKEN_ISSUER, ERROR_TOKEN_KEY_UNKNOWN, ERROR_TOKEN_NOT_YET_VALID, ERROR_TOKEN_REVOKED, Kick, Ping, Renew,
)
from simpclient import Refused, wait_all
from simpserver import BIN, HOST, Clients, Server, until

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


# -- The end of a token


def session(clients, key=KEYS["ES256"], user="carol", **changes):
    """A session with a token of these claims."""
    client = clients.new(user)
    client.token = key.token(claims(sub=user, **changes))
    client.login()
    return client


def refused(client, command, message):
    with pytest.raises(Refused) as raised:
        client.request(command, message)
    return raised.value.code


def test_a_session_ends_with_its_token(issued, names):
    # A login on a busy machine takes its time.
    exp = int(time.time()) + 20
    with Clients(issued) as clients:
        client = session(clients, user=names("carol")[0], exp=exp)
        assert client.session.token_expires == exp * 1000
        client.wait(lambda: client.closed, 60)
        assert client.ended.code == ERROR_TOKEN_EXPIRED and client.ended.retry_after_ms == 0
        assert time.time() >= exp


def test_a_renewal_in_place(issued, names):
    carol, dave = names("carol", "dave")
    old = int(time.time()) + 25
    new = old + 600
    with Clients(issued) as clients:
        a, b = session(clients, user=carol, exp=old), session(clients, KEYS["RS256"], user=dave)
        a.prove_path()
        reply = a.request(wire.RENEW, Renew(token=KEYS["HS256"].token(claims(sub=carol, exp=new))))
        assert reply.token_expires == new * 1000 and abs(reply.server_time - time.time() * 1000) < 60_000
        a.wait(lambda: time.time() > old + 1, 60)
        sent = [a.send(dave, "by udp", by="udp"), a.send(dave, "by tcp", by="tcp")]
        wait_all([a, b], lambda: all(each.is_final for each in sent))
        assert not a.closed
        a.ping_by_udp(5)


def test_renewals_that_are_refused(issued, names):
    carol, dave = names("carol", "dave")
    now = int(time.time())
    with Clients(issued) as clients:
        client = session(clients, user=carol)
        for token, code in (
            (KEYS["ES256"].token(claims(sub=dave)), ERROR_FORBIDDEN), ("", ERROR_TOKEN_INVALID),
            (KEYS["ES256"].token(claims(sub=carol, exp=now - 1)), ERROR_TOKEN_EXPIRED),
            (tokens.Key("ES256", "es256-1").token(claims(sub=carol)), ERROR_TOKEN_INVALID),
            (KEYS["ES256"].token(claims(sub=carol, aud="other")), ERROR_TOKEN_AUDIENCE),
            (KEYS["ES256"].token(claims(sub="a b")), ERROR_NAME_INVALID),
        ):
            assert refused(client, wire.RENEW, Renew(token=token)) == code
        assert client.request(wire.PING, Ping(token=3)).token == 3


# -- Administrators


def test_a_kick_holds_for_every_session_and_over_a_restart(names):
    bob, root = names("bob", "root")
    with tempfile.TemporaryDirectory(prefix="simp-") as state:
        server = Server(state, "--leeway", "0s", "--reactors", "2").start()
        try:
            with Clients(server) as clients:
                began = int(time.time())
                old = server.token(bob, iat=began)
                first = clients.new(bob)
                first.token = old
                first.login()
                senders = [clients.new(bob, send_only=True) for _ in range(6)]
                for each in senders:
                    each.token = old
                    each.login()
                bystander = clients.login(*names("alice"))
                assert refused(bystander, wire.KICK, Kick(user=bob)) == ERROR_FORBIDDEN
                assert refused(bystander, wire.COUNTERS, Ping()) == ERROR_FORBIDDEN
                admin = clients.new(root)
                admin.token = server.token(root, simp="admin")
                admin.login()
                reply = admin.request(wire.KICK, Kick(user=bob, reason="a stolen token"))
                assert reply.stored and began * 1000 <= reply.issued_until <= time.time() * 1000
                for each in [first, *senders]:
                    each.wait(lambda each=each: each.closed)
                    assert each.ended.code == ERROR_TOKEN_REVOKED and "a stolen token" in each.ended.text
                    assert each.ended.retry_after_ms == 0
                counters = {each.name: each.value for each in admin.request(wire.COUNTERS, Ping()).counters}
                assert counters["simp_kicks_total"] == 1 and list(counters) == sorted(counters)
                assert bystander.request(wire.PING, Ping(token=3)).token == 3
            left = server.redis("TTL", "simp:revoked:{u:%s}" % bob)
            assert 364 * 86_400 < left <= 365 * 86_400

            def told(token):
                with Clients(server) as clients:
                    client = clients.new(bob)
                    client.token = token
                    try:
                        return client.login().user
                    except Refused as raised:
                        return raised.code

            assert told(old) == ERROR_TOKEN_REVOKED
            assert told(server.token(bob)) == ERROR_TOKEN_REVOKED, "it does not say when it was issued"
            server.stop()
            server.start()
            assert told(old) == ERROR_TOKEN_REVOKED
            until(lambda: time.time() * 1000 >= reply.issued_until + 1000)
            assert told(server.token(bob, iat=int(time.time()))) == bob
        finally:
            server.clean_up()


def test_a_kick_while_redis_is_away(own_server, names):
    bob, root = names("bob", "root")
    with Clients(own_server) as clients:
        old = own_server.token(bob, iat=int(time.time()))
        victim = clients.new(bob)
        victim.token = old
        victim.login()
        admin = clients.new(root)
        admin.token = own_server.token(root, simp="admin")
        admin.login()
        info = own_server.redis("INFO", "server")
        pid = int(next(line.split(":")[1] for line in info.splitlines() if line.startswith("process_id:")))
        os.kill(pid, signal.SIGSTOP)
        try:
            reply = admin.request(wire.KICK, Kick(user=bob), timeout=30)
            assert not reply.stored
            victim.wait(lambda: victim.closed)
            assert victim.ended.code == ERROR_TOKEN_REVOKED
            again = clients.new(bob)
            again.token = old
            with pytest.raises(Refused) as raised:
                again.login()
            assert raised.value.code == ERROR_TOKEN_REVOKED
        finally:
            os.kill(pid, signal.SIGCONT)
        key = "simp:revoked:{u:%s}" % bob
        assert int(until(lambda: own_server.redis("GET", key), 30)) * 1000 == reply.issued_until


def test_simp_admin(own_server, names):
    bob, alice = names("bob", "alice")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SIMP_")} | {
        "SIMP_SERVER": f"{HOST}:{own_server.port}", "SIMP_KEY": str(own_server.state / "signing.key")}

    def simp(*arguments, status=0, **more):
        done = subprocess.run([str(each) for each in (BIN / "simp", *arguments)], capture_output=True, text=True,
                              timeout=60, env=environment | more)
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout + done.stderr

    with Clients(own_server) as clients:
        victim = clients.login(bob)
        # The token of an ordinary user in the environment does not stand in the way.
        said = simp("admin", "kick", bob, "--reason", "go away", SIMP_TOKEN=own_server.token(alice))
        assert f"{bob} is sent away" in said
        victim.wait(lambda: victim.closed)
        assert victim.ended.code == ERROR_TOKEN_REVOKED and "go away" in victim.ended.text
    lines = dict(line.split() for line in simp("admin", "counters").splitlines())
    assert lines["simp_kicks_total"] == "1"
    assert json.loads(simp("admin", "counters", "--json"))["simp_kicks_total"] == 1
    # By token alone: an administrator's does, another does not.
    away = {"SIMP_KEY": str(own_server.state / "none"), "SIMP_PIN": own_server.pin}
    mint = ("token", alice, "--key", own_server.state / "signing.key")
    assert "administrator" in simp("admin", "kick", bob, status=4, SIMP_TOKEN=simp(*mint).strip(), **away)
    assert "sent away" in simp("admin", "kick", bob, SIMP_TOKEN=simp(*mint, "--admin").strip(), **away)
    assert "simp admin kick USER" in simp("admin", "kick", status=2)
    assert "no user name" in simp("admin", "kick", "a b", status=2)
