"""The command line client at one end, the Python client at the other."""

import json
import random

import pytest

from receipt_pb2 import DELIVERED
from simpclient import finished, wait_all


def test_simp_sends_a_line_to_python(simp, clients, names):
    alice, bob = names("alice", "bob")
    b = clients.online(bob)
    program = simp(alice, "send", bob, "hello from the command line")
    assert finished(program, [b]) == 0, program.text
    assert b.texts(alice) == ["hello from the command line"]


def test_simp_sends_standard_input_line_by_line(simp, clients, names):
    alice, bob = names("alice", "bob")
    b = clients.online(bob)
    lines = [f"{number} {'x' * random.Random(number).randrange(200)} äöü" for number in range(300)]
    lines += ["", " ", "end"]
    program = simp(alice, "send", bob, text="\n".join(lines) + "\n")
    assert finished(program, [b]) == 0, program.text
    assert [each.content for each in sorted(b.inbox, key=lambda each: each.order)] == lines
    # How many is the machine's matter: who is held up for a moment gets some by TCP.
    assert "udp" in b.via.values()


def test_simp_listens_to_python(simp, clients, names):
    alice, bob = names("alice", "bob")
    program = simp(bob, "listen", "-n", "50")
    a = clients.online(alice)
    lines = [f"line {number} ✓" for number in range(48)] + ["", "end"]
    sent = [a.send(bob, line) for line in lines]
    assert finished(program, [a]) == 0, program.text
    assert program.out == lines
    wait_all([a], lambda: all(each.is_final for each in sent))
    assert {each.state() for each in sent} == {DELIVERED}


def test_simp_listens_where_a_third_of_the_datagrams_is_lost(simp, clients, names):
    alice, bob = names("alice", "bob")
    program = simp(bob, "listen", "-n", "200")
    a = clients.online(alice)
    dice = random.Random(7)
    a.loses_outgoing = a.loses_incoming = lambda number: dice.random() < 0.33
    for number in range(200):
        a.send(bob, f"{number}")
    assert finished(program, [a], timeout=60) == 0, program.text
    assert program.out == [f"{number}" for number in range(200)], "in order, each once"


def test_simp_listens_in_json(simp, clients, names):
    alice, bob = names("alice", "bob")
    program = simp(bob, "listen", "--json", "-n", "1")
    a = clients.online(alice)
    sent = a.send(bob, 'quote " and \u2028')
    assert finished(program, [a]) == 0, program.text
    shown = json.loads(program.out[0])
    assert shown["from"] == alice and shown["text"] == 'quote " and \u2028'
    assert int(shown["id"]) == sent.message.message_id


def test_copies_and_disorder_are_not_shown(simp, clients, names):
    alice, bob = names("alice", "bob")
    program = simp(bob, "listen", "-n", "20")
    a = clients.online(alice)
    sent = [a.compose(bob, f"{number}") for number in range(20)]
    shuffled = sent * 3
    random.Random(2).shuffle(shuffled)
    for each in shuffled:
        a.transmit([each], by=random.Random(id(each)).choice(["udp", "tcp"]))
    assert finished(program, [a]) == 0, program.text
    assert program.out == [f"{number}" for number in range(20)]


@pytest.mark.parametrize("arguments, word", [
    (["send"], "send"), (["frobnicate"], "frobnicate"), (["send", "a b", "text"], "a b"),
    (["listen", "--colour"], "--colour"),
])
def test_misuse_is_explained(simp, names, arguments, word):
    program = simp(*names("alice"), *arguments)
    assert program.finish() == 2
    assert word in "\n".join(program.err) and not program.out


@pytest.mark.parametrize("token", ["", "nonsense"])
def test_a_bad_token_is_told(simp, names, token):
    program = simp(*names("alice"), "send", "bob", "text", token=token or " ")
    assert program.finish() not in (0, 1)
    assert "token" in "\n".join(program.err).lower()


def test_an_expired_token_is_told(simp, server, names):
    (alice,) = names("alice")
    program = simp(alice, "send", "bob", "text", token=server.token(alice, ttl=-5))
    assert program.finish() == 4
    assert "expired" in "\n".join(program.err).lower()
