"""Records and handshakes with one thing wrong: the server closes, and nothing of the record reaches anybody."""

import simptls
import simpwire as wire
from rogue import Rogue, patiently
from session_pb2 import Ping
from simpclient import Refused
from tunnel import Tunnel


def logged_in(play, visitor):
    tunnel = Tunnel(play.clients.server)
    tunnel.shake_hands()
    answer = tunnel.ask(wire.packet(wire.LOGIN, visitor.login(), sequence=1))
    if answer.is_error:
        tunnel.stream.close()
        raise Refused(answer.decoded())
    visitor.client.device = answer.decoded().device_number
    return tunnel


def a_record(name, change, closes=True):
    """`change` gets the dice and two records, and gives the bytes that leave."""

    def break_it(_, play):
        visitor = Rogue(play.clients.server.client(play.visitor), play.clients.server.token(play.visitor))
        with patiently(lambda: logged_in(play, visitor)) as tunnel:
            texts = [f"{name} {len(play.forbidden) + place}" for place in range(2)]
            play.forbidden |= set(texts)
            records = [tunnel.record(wire.packet(wire.MESSAGE, visitor.message(play.target, text))) for text in texts]
            data = change(play.dice, *records)
            tunnel.stream.sendall(play.breaks(f"record: {name}", data, b"".join(records)))
            assert not closes or tunnel.closes()
        return True

    return break_it


def bit_of_a_record(dice, first, second):
    at = dice.randrange(5, len(first))
    return first[:at] + bytes([first[at] ^ 1 << dice.randrange(8)]) + first[at + 1 :] + second


RECORDS = {
    "cut": lambda dice, first, _: first[: dice.randrange(1, len(first))],
    "a bit": bit_of_a_record,
    "the first is missing": lambda dice, first, second: second,
    "turned round": lambda dice, first, second: second + first,
    "type": lambda dice, first, second: bytes([dice.choice([0, 20, 21, 22, 24, 255])]) + first[1:] + second,
    "too long": lambda dice, first, second: first[:3] + b"\xff\xff" + first[5:] + second * 1000,
    "shorter than said": lambda dice, first, second: first[:3] + (len(first) - 6).to_bytes(2, "big") + first[5:] + second,
    "in clear": lambda dice, first, second: wire.packet(wire.PING, Ping(token=1)).encoded() * 4,
}


def a_handshake(name, change):
    def break_it(_, play):
        with Tunnel(play.clients.server) as tunnel:
            good = simptls.hello()
            tunnel.stream.sendall(play.breaks(f"handshake: {name}", change(play.dice, good), good))
            assert name == "cut" or tunnel.closes()
        return True

    return break_it


HANDSHAKES = {
    "cut": lambda dice, hello: hello[: dice.randrange(1, len(hello))],
    "version": lambda dice, hello: hello[:9] + b"\x00\x00" + hello[11:],
    "length": lambda dice, hello: hello[:6] + b"\xff\xff\xff" + hello[9:],
    "junk behind": lambda dice, hello: hello + dice.randbytes(64),
    "junk": lambda dice, hello: dice.randbytes(200),
}

BREAKS = {
    **{f"record: {name}": a_record(name, change, closes=name != "cut") for name, change in RECORDS.items()},
    **{f"handshake: {name}": a_handshake(name, change) for name, change in HANDSHAKES.items()},
}
