"""Who may log in, and what happens before."""

import json
import socket
import time

import pytest

import simpwire as wire
from message_pb2 import Message
from session_pb2 import (
    ERROR_MALFORMED, ERROR_NAME_INVALID, ERROR_NOT_LOGGED_IN, ERROR_TIMED_OUT, ERROR_TOKEN_EXPIRED,
    ERROR_TOKEN_INVALID, ERROR_TOKEN_NOT_YET_VALID, ERROR_UNSUPPORTED_VERSION, Login, Ping,
)
from simpclient import Client, Refused
from simpserver import HOST, _part, make_token


def refusal(client, **overrides):
    """The code that refuses the login; the server closes after it."""
    with pytest.raises(Refused) as raised:
        client.login(**overrides)
    client.wait(lambda: client.closed)
    assert raised.value.text and client.token not in raised.value.text
    return raised.value.code


def test_the_reply_says_all_that_a_client_needs(clients, names, server):
    (alice,) = names("alice")
    reply = clients.login(alice).session
    assert (reply.protocol, reply.user, reply.cipher) == (1, alice, wire.AES_128_GCM)
    assert 0 < reply.device_number < 1 << 24
    assert 0 < reply.connection_id < 1 << 48
    assert reply.udp_port == server.udp_port
    assert len(reply.udp_secret) == 32 and len(set(reply.udp_secret)) > 8
    assert reply.maximum_packet_bytes == wire.LIMIT_AFTER_LOGIN
    assert reply.maximum_datagram_bytes == wire.DATAGRAM_BYTES
    assert abs(reply.server_time - time.time() * 1000) < 60_000
    assert 0 < reply.session_epoch < 1 << 53
    assert reply.node
    for name in ("window_messages", "window_bytes", "order_window", "udp_keepalive_ms", "tcp_keepalive_ms"):
        assert getattr(reply, name) > 0, name
    assert reply.idle_timeout_ms > reply.tcp_keepalive_ms


def test_each_login_has_a_secret_a_connection_id_and_a_higher_epoch(clients, names):
    (alice,) = names("alice")
    replies = [clients.login(alice).session for _ in range(4)]
    assert len({each.udp_secret for each in replies}) == 4
    assert len({each.connection_id for each in replies}) == 4
    epochs = [each.session_epoch for each in replies]
    assert epochs == sorted(set(epochs))


def test_device_numbers_belong_to_outboxes(clients, names):
    alice, bob = names("alice", "bob")
    first = clients.login(alice, outbox_id=11)
    assert clients.login(alice, outbox_id=11, device=first.device).device == first.device
    assert clients.login(alice, outbox_id=11).device == first.device, "also when the number was forgotten"
    second = clients.login(alice, outbox_id=12)
    assert second.device > first.device
    # Presenting a number that another outbox has does not give it away.
    assert clients.login(alice, outbox_id=13, device=first.device).device > second.device
    # An outbox that comes with a number this server never gave (its store was lost) keeps it.
    assert clients.login(bob, outbox_id=14, device=4000).device == 4000
    assert clients.login(bob, outbox_id=15).device > 4000


@pytest.mark.parametrize(
    "token", ["", "x", "a.b.c", "..", "....", "e30.e30.", "\u00fc.\u00fc.\u00fc", "A" * 3000, "e30.e30.e30"])
def test_garbage_for_a_token(clients, names, token):
    client = clients.new(*names("alice"))
    client.token = token
    with pytest.raises(Refused) as raised:
        client.login()
    assert raised.value.code == ERROR_TOKEN_INVALID
    client.wait(lambda: client.closed)


def token_cases():
    now = int(time.time())
    good = {"sub": "carol", "exp": now + 600}
    return {
        "expired": (good | {"exp": now - 60}, {}, ERROR_TOKEN_EXPIRED),
        "no exp": ({"sub": "carol"}, {}, ERROR_TOKEN_INVALID),
        "exp is text": (good | {"exp": str(now + 600)}, {}, ERROR_TOKEN_INVALID),
        "exp is 0": (good | {"exp": 0}, {}, None),
        "exp is negative": (good | {"exp": -5}, {}, None),
        "not valid yet": (good | {"nbf": now + 600}, {}, ERROR_TOKEN_NOT_YET_VALID),
        "no sub": ({"exp": now + 600}, {}, None),
        "sub is empty": (good | {"sub": ""}, {}, None),
        "sub with a space": (good | {"sub": "a b"}, {}, None),
        "sub with a brace": (good | {"sub": "a}"}, {}, None),
        "sub with a line feed": (good | {"sub": "a\n"}, {}, None),
        "sub with U+0000": (good | {"sub": "a\0b"}, {}, None),
        "sub too long": (good | {"sub": "a" * 65}, {}, None),
        "sub is a number": (good | {"sub": 7}, {}, None),
        "alg none": (good, {"alg": "none"}, ERROR_TOKEN_INVALID),
        "alg None": (good, {"alg": "None"}, ERROR_TOKEN_INVALID),
        "alg HS512": (good, {"alg": "HS512"}, ERROR_TOKEN_INVALID),
        "alg RS256": (good, {"alg": "RS256"}, ERROR_TOKEN_INVALID),
        "no alg": (good, {"typ": "JWT"}, ERROR_TOKEN_INVALID),
    }


@pytest.mark.parametrize("case", token_cases())
def test_bad_tokens(clients, names, server, case):
    claims, header, code = token_cases()[case]
    client = clients.new(*names("alice"))
    client.token = make_token(server.secret, claims, header or None)
    told = refusal(client)
    assert told == code or code is None and told in (ERROR_NAME_INVALID, ERROR_TOKEN_INVALID, ERROR_TOKEN_EXPIRED)


def test_signatures(clients, names, server):
    claims = {"sub": "carol", "exp": int(time.time()) + 600}
    good = make_token(server.secret, claims)
    head, body, signature = good.split(".")
    other = _part(json.dumps(claims | {"sub": "alice"}).encode()).decode()
    unsigned = _part({"alg": "none"}).decode()
    for token in (
        make_token(bytes(32), claims), make_token(b"", claims), f"{head}.{body}.", f"{head}.{body}",
        f"{head}.{other}.{signature}", f"{unsigned}.{body}.", f"{unsigned}.{body}.{signature}",
        f"{head}.{body}.{signature[:-4]}", f"{head}.{body}.{signature}.{signature}",
        make_token(server.secret.hex().encode(), claims),
    ):
        client = clients.new(*names("alice"))
        client.token = token
        assert refusal(client) == ERROR_TOKEN_INVALID, token
    client = clients.new(*names("alice"))
    client.token = good
    assert client.login().user == "carol"


@pytest.mark.parametrize("overrides, code", [
    (dict(protocol_min=2, protocol_max=9), ERROR_UNSUPPORTED_VERSION),
    (dict(protocol_min=0, protocol_max=0), ERROR_UNSUPPORTED_VERSION),
    (dict(outbox_id=0), ERROR_MALFORMED),
])
def test_logins_that_cannot_be(clients, names, overrides, code):
    assert refusal(clients.new(*names("alice")), **overrides) == code


def test_a_client_of_the_future_gets_what_both_speak(clients, names):
    client = clients.new(*names("alice"))
    reply = client.login(protocol_min=1, protocol_max=70, features=(1 << 64) - 1, ciphers=[77, 2, 1])
    assert (reply.protocol, reply.features, reply.cipher) == (1, wire.KEPT_OUTCOMES, 2)


@pytest.mark.parametrize("ciphers", [[], [77]])
def test_without_a_cipher_in_common_there_is_no_udp(clients, names, ciphers):
    reply = clients.new(*names("alice")).login(ciphers=ciphers)
    assert (reply.cipher, reply.udp_port, reply.udp_secret, reply.connection_id) == (0, 0, b"", 0)


@pytest.mark.parametrize("command, payload", [
    (wire.PING, Ping(token=1)), (wire.LOGOUT, Ping()), (wire.MESSAGE, Message(to_user="bob", order=1, floor=1)),
    (wire.RECEIPT, Ping()),
])
def test_nothing_but_login_before_login(clients, names, command, payload):
    client = clients.new(*names("alice")).connect()
    client.send_packet(wire.packet(command, payload, sequence=5))
    answer = client.wait(lambda: client.responses.get((command, 5)))
    assert answer.decoded().code == ERROR_NOT_LOGGED_IN
    assert client.login().user


def test_a_second_login_on_a_connection_is_refused(clients, names):
    client = clients.login(*names("alice"))
    with pytest.raises(Refused) as raised:
        client.request(wire.LOGIN, Login(token=client.token, protocol_min=1, protocol_max=1, outbox_id=5))
    assert raised.value.code == ERROR_MALFORMED
    assert client.request(wire.PING, Ping(token=3)).token == 3


def test_who_does_not_log_in_within_ten_seconds_is_sent_away(server):
    """Silent, half a header, a byte a second, error after error: none keeps the connection."""
    began = time.monotonic()
    clients = [Client(HOST, server.port, "", pin=server.pin).connect() for _ in range(4)]
    silent, half, slow, busy = clients
    half.send_bytes(bytes([0, 0, 0, 16, 0, 1]))
    login = wire.packet(wire.LOGIN, Login(token="x" * 500)).encoded()
    closed = {}
    sent = 0
    while len(closed) < 4 and time.monotonic() - began < 40:
        for each in clients:
            each.pump(0.01)
            if each.closed:
                closed.setdefault(clients.index(each), time.monotonic() - began)
        if sent < time.monotonic() - began:
            slow.send_bytes(login[sent : sent + 1])
            busy.send_packet(wire.packet(wire.PING, Ping()))
            sent += 1
    assert len(closed) == 4, closed
    # The slow one alone would need ten minutes.
    assert all(8 < at < 35 for at in closed.values()), closed
    assert {each.ended.code for each in clients if each.ended} == {ERROR_TIMED_OUT}
    for each in clients:
        each.close()


def test_many_that_never_log_in_do_not_keep_others_out(server, clients, names):
    idle = [socket.create_connection((HOST, server.port)) for _ in range(300)]
    try:
        assert clients.online(*names("alice")).path_up
    finally:
        for each in idle:
            each.close()
