"""The client's own codec, before it is trusted to judge a server."""

import random

import pytest

import golden
import simpwire as wire

STREAM = [golden.PACKETS[name] for name in ("login", "message", "ping_empty", "receipt_outcomes")]
BYTES = b"".join(each.encoded() for each in STREAM)


@pytest.mark.parametrize("cut", range(1, len(BYTES)))
def test_framer_does_not_care_where_a_read_ends(cut):
    framer = wire.Framer()
    assert framer.feed(BYTES[:cut]) + framer.feed(BYTES[cut:]) == STREAM
    assert framer.pending == 0


def test_framer_takes_byte_by_byte_and_any_cuts():
    framer = wire.Framer()
    assert [each for byte in BYTES for each in framer.feed(bytes([byte]))] == STREAM
    random.seed(4)
    for _ in range(200):
        cuts = sorted(random.sample(range(len(BYTES)), 5))
        parts = [BYTES[a:b] for a, b in zip([0, *cuts], [*cuts, len(BYTES)])]
        assert [each for part in parts for each in framer.feed(part)] == STREAM


@pytest.mark.parametrize("length", [0, 15, wire.LIMIT_BEFORE_LOGIN + 1, 0xFFFFFFFF])
def test_framer_refuses_lengths(length):
    with pytest.raises(wire.Malformed):
        wire.Framer().feed(wire.Packet(wire.PING).encoded(length=length))


def test_framer_takes_lengths_over_255_and_the_limit():
    for size in (240, 255, 256, 257, wire.LIMIT_BEFORE_LOGIN - wire.HEADER_BYTES):
        sent = wire.Packet(wire.PING, bytes(size))
        assert wire.Framer().feed(sent.encoded()) == [sent]


@pytest.mark.parametrize("wrong", [{"reserved": 1}, {"version": 2}])
def test_framer_refuses_headers(wrong):
    with pytest.raises(wire.Malformed):
        wire.Framer().feed(wire.Packet(wire.PING).encoded(**wrong))


def test_ranges_round_trip():
    random.seed(9)
    for _ in range(300):
        numbers = {random.randrange(500) for _ in range(random.randrange(1, 200))}
        largest, runs, gaps = wire.ranges_of(numbers)
        assert wire.numbers_of(wire.receipt_pb2.Datagrams(largest=largest, runs=runs, gaps=gaps)) == numbers


@pytest.mark.parametrize("runs, gaps", [([], []), ([0], []), ([1, 1], []), ([1], [1]), ([12], []), ([1, 1], [10])])
def test_ranges_that_cannot_be(runs, gaps):
    with pytest.raises(wire.Malformed):
        wire.numbers_of(wire.receipt_pb2.Datagrams(largest=10, runs=runs, gaps=gaps))


@pytest.mark.parametrize("total", [60, 100, 300, 1199, 1200])
def test_padding_reaches_the_size(total):
    plain = wire.padded_challenge(7, total=total)
    assert len(wire.Direction(golden.SECRET, 1, "c2s").seal(1, 0, plain)) == total
    assert [each.command for each in wire.packets_of(plain)] == [wire.PATH_CHALLENGE]


def test_directions_and_ciphers_have_different_keys():
    directions = [wire.Direction(golden.SECRET, cipher, way) for cipher in (1, 2) for way in ("c2s", "s2c")]
    for sealing in directions:
        sealed = sealing.seal(5, 1, b"text")
        for opening in directions:
            if opening is sealing:
                assert opening.open(sealed) == (1, b"text")
            else:
                with pytest.raises(wire.InvalidTag):
                    opening.open(sealed)
