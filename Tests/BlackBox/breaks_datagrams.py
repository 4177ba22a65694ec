"""Datagrams with one thing wrong: nothing of them is answered, and the session's datagrams go on."""

import simpwire as wire
from rogue import ping
from session_pb2 import Ping


def a_datagram(name, change):
    """`change` gets the client, the dice, a number and a plain text, and gives (bytes, what they would be if right)."""

    def break_it(rogue, play):
        client, token = rogue.client, next(play.tokens)
        rogue.speaks_by_udp(next(play.tokens))
        number, client.number = client.number, client.number + 1
        data, good = change(client, play.dice, number, ping(token))
        client.send_raw(play.breaks(f"datagram: {name}", data, good))
        rogue.speaks_by_udp(next(play.tokens))
        assert not rogue.echoes[token], f"{name}: answered"
        return True

    return break_it


def sealed(client, number, plain, **header):
    return client.sealing.seal(client.session.connection_id, number, plain, **header)


def with_header(**choices):
    """Another value in the header, sealed with it: only the field itself is wrong."""

    def change(client, dice, number, plain):
        header = {name: dice.choice(values) for name, values in choices.items()}
        return sealed(client, number, plain, **header), sealed(client, number, plain)

    return change


def another_connection(client, dice, number, plain):
    mine = client.session.connection_id
    other = mine ^ dice.choice([1 << bit for bit in range(48)] + [mine])
    return client.sealing.seal(other, number, plain), sealed(client, number, plain)


def flipped(first, last):
    """One bit between these places, from the end when below 0."""

    def change(client, dice, number, plain):
        good = sealed(client, number, plain)
        at = dice.randrange(first % len(good), (last - 1) % len(good) + 1)
        return good[:at] + bytes([good[at] ^ 1 << dice.randrange(8)]) + good[at + 1 :], good

    return change


def cut(client, dice, number, plain):
    good = sealed(client, number, plain)
    return good[: dice.randrange(len(good))], good


def grown(client, dice, number, plain):
    good = sealed(client, number, plain)
    return good + dice.randbytes(dice.randrange(1, 40)), good


def reflected(client, dice, number, plain):
    return dice.choice(client.datagrams_in)[0], sealed(client, number, plain)


def the_other_direction(client, dice, number, plain):
    key = wire.Direction(client.session.udp_secret, client.session.cipher, "s2c")
    return key.seal(client.session.connection_id, number, plain), sealed(client, number, plain)


def the_other_suite(client, dice, number, plain):
    key = wire.Direction(client.session.udp_secret, 3 - client.session.cipher, "c2s")
    return key.seal(client.session.connection_id, number, plain), sealed(client, number, plain)


def older_than_the_window(rogue, play):
    client, token = rogue.client, next(play.tokens)
    number, client.number = client.number, client.number + 2000
    rogue.speaks_by_udp(next(play.tokens))
    old = sealed(client, number, ping(token))
    client.send_raw(play.breaks("datagram: older than the window", old, sealed(client, client.number, ping(token))))
    rogue.speaks_by_udp(next(play.tokens))
    assert not rogue.echoes[token]
    return True


# -- Key phases


def change_key(rogue, play):
    """As the rules have it: something of the present phase was receipted."""
    client = rogue.client
    rogue.speaks_by_udp(next(play.tokens))
    client.wait(lambda: max(client.receipted, default=-1) >= client.phase_begin, 20)
    former, client.sealing, client.phase_begin = client.sealing, client.sealing.next(), client.number
    # Takes the server along, and asks for no receipt.
    client.send_datagram(wire.packet(wire.PATH_RESPONSE, Ping(token=1)).encoded())
    return former


def too_soon(rogue, play):
    """Twice in a row, and nothing of the phase between is receipted."""
    client, token = rogue.client, next(play.tokens)
    change_key(rogue, play)
    number, client.number = client.number, client.number + 1
    early = client.sealing.next().seal(client.session.connection_id, number, ping(token))
    client.send_raw(play.breaks("phase: changed too soon", early, sealed(client, number, ping(token))))
    rogue.speaks_by_udp(next(play.tokens))
    assert not rogue.echoes[token]
    return True


def two_at_once(client, dice, number, plain):
    return client.sealing.next().next().seal(client.session.connection_id, number, plain), sealed(client, number, plain)


def back_again(rogue, play):
    """The former key for a new number."""
    client, token = rogue.client, next(play.tokens)
    former = change_key(rogue, play)
    rogue.speaks_by_udp(next(play.tokens))
    number, client.number = client.number, client.number + 1
    late = former.seal(client.session.connection_id, number, ping(token))
    client.send_raw(play.breaks("phase: the former key goes on", late, sealed(client, number, ping(token))))
    rogue.speaks_by_udp(next(play.tokens))
    assert not rogue.echoes[token]
    return True


def before_its_time(rogue, play):
    """The new key for a number of the phase before."""
    client, token = rogue.client, next(play.tokens)
    left_out, client.number = client.number, client.number + 1
    change_key(rogue, play)
    early = sealed(client, left_out, ping(token))
    client.send_raw(play.breaks("phase: the new key for an old number", early, sealed(client, client.number, ping(token))))
    rogue.speaks_by_udp(next(play.tokens))
    assert not rogue.echoes[token]
    return True


def again(rogue, play):
    """A copy has no effect."""
    client, token = rogue.client, next(play.tokens)
    number, client.number = client.number, client.number + 1
    datagram = sealed(client, number, ping(token))
    client.sent_datagrams[number] = (0.0, [])
    client.send_raw(datagram)
    rogue.speaks_by_udp(next(play.tokens))
    for _ in range(3):
        client.send_raw(play.breaks("datagram: again", datagram, None))
    rogue.speaks_by_udp(next(play.tokens))
    assert rogue.echoes[token] == 1, f"answered {rogue.echoes[token]} times"
    return True


CHANGES = {
    "kind": with_header(kind=[0, 2, 0x81, 255]),
    "phase": with_header(phase=[2, 3, 128, 255]),
    "the other phase": lambda client, dice, number, plain: (
        sealed(client, number, plain, phase=1 - (client.sealing.number & 1)), sealed(client, number, plain)),
    "connection id": another_connection,
    "header": flipped(0, 16),
    "packet number": flipped(8, 16),
    "sealed text": flipped(16, -16),
    "tag": flipped(-16, 0),
    "cut": cut,
    "grown": grown,
    "reflected": reflected,
    "the other direction": the_other_direction,
    "the other suite": the_other_suite,
    "two phases ahead": two_at_once,
}

BREAKS = {
    **{f"datagram: {name}": a_datagram(name, change) for name, change in CHANGES.items()},
    "datagram: again": again,
    "datagram: older than the window": older_than_the_window,
    "phase: changed too soon": too_soon,
    "phase: the former key goes on": back_again,
    "phase: the new key for an old number": before_its_time,
}
