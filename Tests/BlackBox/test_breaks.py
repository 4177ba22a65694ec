"""A client that speaks valid sessions and breaks one thing at a time, from a fixed seed: the server lives, answers as the
wire document says or keeps silent, and an honest pair of sessions beside it loses nothing. Each kind of break is counted,
and one that was not made fails the test.

`Tests/BlackBox/run test_breaks.py --breaks 5000` breaks so many things a seed.
"""

import collections
import random

import pytest

import breaks_datagrams
import breaks_tls
import session_pb2
import simpwire as wire
from breaks import HEADER_BREAKS, broken_header
from receipt_pb2 import DELIVERED, Outcome, Receipt
from rogue import FIELDS, Play, field_name, ping
from session_pb2 import ERROR_REPLACED, Ping

SEEDS = 3

# The things to break. Each is called with the rogue and the play, counts itself there by its name when the bytes are
# wrong indeed, and returns whether the session must live.


# -- Fields


def a_field(command, path, way):
    def break_it(rogue, play):
        packet, is_refused = play.broken(rogue, command, path, way)
        if play.dice.random() < 0.3:
            by_datagram(rogue, packet.encoded())
            return True
        rogue.client.send_packet(packet)
        if is_refused:
            answer = rogue.client.wait(lambda: rogue.client.responses.get((command, packet.sequence)), 20)
            assert answer.is_error, f"taken, and no Protobuf: {packet}"
        return True

    return break_it


def a_field_of_a_login(path, way):
    def break_it(_, play):
        visitor = play.visit()
        client = visitor.client
        packet, is_refused = play.broken(visitor, wire.LOGIN, path, way)
        client.send_packet(packet)
        client.wait(lambda: client.responses.get((wire.LOGIN, packet.sequence)) or client.closed, 20)
        answer = client.responses[wire.LOGIN, packet.sequence]
        assert answer.is_error or not is_refused, f"let in, and no Protobuf: {packet}"
        assert answer.is_error or way != "dropped" or path[0] not in ("token", "outbox_id"), packet
        play.leave(client)
        return True

    return break_it


# -- Headers of packets


def a_header(field):
    """Where it breaks the framing the server says why, and it is the end."""

    def break_it(rogue, play):
        command, message = play.any(rogue)
        good = wire.packet(command, message, sequence=7)
        data, value = broken_header(play.dice, good, field)
        play.breaks(f"header: {field}", data, good.encoded())
        client, code = rogue.client, HEADER_BREAKS[field][1]
        client.send_bytes(data)
        if code is not None:
            client.wait(lambda: client.closed, 20)
            assert client.ended is not None and client.ended.code == code, (data[:16], client.ended)
        elif field in ("service", "command"):
            which = (value, command[1]) if field == "service" else (command[0], value)
            client.wait(lambda: client.responses.get((which, 7)), 20)
            assert client.responses[which, 7].decoded().code == session_pb2.ERROR_UNKNOWN_COMMAND
        return code is None

    return break_it


def a_header_in_a_datagram(field):
    """What stands before the broken header holds, the rest is dropped, and the session lives."""

    def break_it(rogue, play):
        before, after = next(play.tokens), next(play.tokens)
        good = wire.packet(wire.PATH_RESPONSE, rogue.sample(play.dice, wire.PATH_RESPONSE, play.target))
        data, _ = broken_header(play.dice, good, field)
        play.breaks(f"header in a datagram: {field}", data, good.encoded())
        rogue.speaks_by_udp(next(play.tokens))
        by_datagram(rogue, ping(before) + data + ping(after))
        rogue.speaks_by_udp(next(play.tokens))
        if HEADER_BREAKS[field][1] is not None:
            assert not rogue.echoes[after], f"read on behind {data}"
        return True

    return break_it


# -- Commands where they have no place


def by_datagram(rogue, plain):
    rogue.client.send_datagram(plain[: wire.DATAGRAM_BYTES - 32])


def on_the_wrong_channel(rogue, play):
    for command in (wire.PATH_CHALLENGE, wire.PATH_RESPONSE, wire.PATH_UP, wire.PROBE_REQUEST, wire.ENDED):
        rogue.client.send_packet(wire.packet(command, Ping(token=1), flags=play.dice.choice([0, 1, 3])))
    outcomes = Receipt(outcomes=[Outcome(state=DELIVERED, user=play.target, device=1, orders=[1, 9])])
    for packet in (wire.packet(wire.LOGIN, rogue.login()), wire.packet(wire.LOGOUT, Ping(token=5)),
                   wire.packet(wire.RECEIPT, outcomes), wire.packet(wire.COUNTERS)):
        by_datagram(rogue, packet.encoded())
    play.made["order: on the wrong channel"] += 1
    return True


def in_any_order(rogue, play):
    """By both channels, some twice, some as if they were answers."""
    for _ in range(play.dice.randrange(3, 9)):
        command, message = play.any(rogue)
        packet = wire.packet(command, message, flags=play.dice.choice([0, 0, 4, 1, 3]), sequence=play.dice.randrange(9))
        for _ in range(play.dice.choice([1, 1, 2])):
            if play.dice.random() < 0.5:
                rogue.client.send_packet(packet)
            else:
                by_datagram(rogue, packet.encoded())
    play.made["order: any"] += 1
    return True


def before_the_login(_, play):
    visitor = play.visit()
    client = visitor.client
    for sequence, command in enumerate((wire.MESSAGE, wire.RECEIPT, wire.PING, wire.RENEW, wire.KICK), 5):
        client.send_packet(wire.packet(command, visitor.sample(play.dice, command, play.target), sequence=sequence))
        answer = client.wait(lambda: client.responses.get((command, sequence)), 20)
        assert answer.is_error and answer.decoded().code == session_pb2.ERROR_NOT_LOGGED_IN
    play.made["order: before the login"] += 1
    play.leave(client)
    return True


def a_second_login(rogue, play):
    rogue.client.send_packet(wire.packet(wire.LOGIN, rogue.login(), sequence=60_003))
    answer = rogue.client.wait(lambda: rogue.client.responses.get((wire.LOGIN, 60_003)), 20)
    assert answer.is_error and answer.decoded().code == session_pb2.ERROR_MALFORMED
    play.made["order: a second login"] += 1
    return True


def behind_the_logout(rogue, play):
    command, message = play.any(rogue)
    rogue.client.send_packet(wire.packet(wire.LOGOUT, Ping(token=1), sequence=60_001))
    rogue.client.send_packet(wire.packet(command, message, sequence=60_002))
    rogue.client.wait(lambda: rogue.client.closed, 20)
    assert (wire.LOGOUT, 60_001) in rogue.client.responses
    assert (command, 60_002) not in rogue.client.responses
    play.made["order: behind the logout"] += 1
    return False


def the_length_of_a_stream(rogue, play):
    """Half a packet, and the connection is gone."""
    command, message = play.any(rogue)
    data = wire.packet(command, message).encoded()
    rogue.client.send_bytes(play.breaks("stream: half a packet", data[: play.dice.randrange(1, len(data))], data))
    return False


def the_only_session(rogue, play):
    """A second session of the user takes over in the middle of a packet of the first."""
    data = wire.packet(wire.MESSAGE, rogue.message(play.target)).encoded()
    rogue.client.send_bytes(play.breaks("stream: another session begins", data[:20], data))
    play.rogue, first = None, rogue
    play.fresh()
    first.client.wait(lambda: first.client.closed, 20)
    assert first.client.ended is not None and first.client.ended.code == ERROR_REPLACED
    play.leave(first.client)
    return True


BREAKS = {
    **{f"header: {field}": a_header(field) for field in HEADER_BREAKS},
    **{f"header in a datagram: {field}": a_header_in_a_datagram(field) for field in HEADER_BREAKS},
    **breaks_datagrams.BREAKS,
    **breaks_tls.BREAKS,
    "order: on the wrong channel": on_the_wrong_channel,
    "order: any": in_any_order,
    "order: before the login": before_the_login,
    "order: a second login": a_second_login,
    "order: behind the logout": behind_the_logout,
    "stream: half a packet": the_length_of_a_stream,
    "stream: another session begins": the_only_session,
}


def deck(seed, count):
    """(name, what to do): every kind, and of the fields those that are this seed's; more of both up to `count`."""
    dice = random.Random(seed)
    fields = [(field_name(*each), a_field_of_a_login(*each[1:]) if each[0] == wire.LOGIN else a_field(*each))
              for each in FIELDS]
    random.Random(0).shuffle(fields)
    cards = [*BREAKS.items(), *fields[seed::SEEDS]]
    cards += dice.choices([*BREAKS.items(), *fields], k=max(count - len(cards), 0))
    dice.shuffle(cards)
    return cards


@pytest.mark.parametrize("seed", range(SEEDS))
def test_one_thing_at_a_time(clients, names, request, seed):
    play = Play(clients, names, seed)
    rogue = play.fresh()
    cards = deck(seed, request.config.getoption("--breaks"))
    for number, (name, break_it) in enumerate(cards):
        if number % 4 == 0:
            play.honest()
        lives = break_it(rogue, play)
        rogue = play.rogue
        if lives:
            assert rogue.alive(), f"seed {seed}, break {number}, {name}: closed, {rogue.client.ended}"
        else:
            rogue = play.fresh()
    play.finish()
    missing = {name for name, _ in cards} - play.made.keys()
    assert not missing, f"never made: {missing}"
    kinds = collections.Counter(name.split(":")[0].split(".")[0] for name in play.made)
    print(f"{play.made.total()} breaks of {len(play.made)} kinds: {dict(sorted(kinds.items()))}")
