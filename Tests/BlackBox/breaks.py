"""Ways to break a packet in exactly one place."""

import simpwire as wire
from session_pb2 import ERROR_MALFORMED, ERROR_TOO_LARGE, ERROR_UNKNOWN_FLAGS, ERROR_UNSUPPORTED_VERSION

NUMBERS = [0, 1, 127, 128, 16_383, 16_384, (1 << 24) - 1, 1 << 24, (1 << 32) - 1, 1 << 32, (1 << 40) - 1, 1 << 40,
           (1 << 63) - 1, 1 << 63, (1 << 64) - 1]
TEXTS = [b"", b"a\x00b", b"\x00", b"\xff\xfe", b"\xc0\x80", b"\xed\xa0\x80", b"\xf5\x80\x80\x80", b"a b", b"x" * 65,
         b"../etc", "ü".encode(), b"x" * 900]


def varint(value, extra=0):
    """`extra` bytes longer than need be."""
    out = bytearray()
    while value > 127 or extra > 0:
        if value <= 127:
            extra -= 1
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out) + bytes([value])


def read_varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at


def fields_of(data):
    """[(number, kind, value)] of a payload; of kinds 1 and 5 the raw bytes."""
    fields, at = [], 0
    while at < len(data):
        tag, at = read_varint(data, at)
        number, kind = tag >> 3, tag & 7
        if kind == 0:
            value, at = read_varint(data, at)
        else:
            if kind == 2:
                size, at = read_varint(data, at)
            else:
                size = 8 if kind == 1 else 4
            value, at = data[at : at + size], at + size
        fields.append((number, kind, value))
    return fields


def encode(field):
    number, kind, value = field
    tag = varint(number << 3 | kind)
    if kind == 0:
        return tag + varint(value)
    return tag + (varint(len(value)) + value if kind == 2 else value)


def another_value(dice, field):
    number, kind, value = field
    match kind:
        case 0:
            return number, kind, dice.choice(NUMBERS)
        case 1 | 5:
            size = 8 if kind == 1 else 4
            return number, kind, (dice.choice(NUMBERS) & (1 << 8 * size) - 1).to_bytes(size, "little")
    if dice.random() < 0.4 and len(value) > 1:
        try:
            inner = fields_of(value)
        except IndexError:
            inner = []
        if inner and all(0 < each[0] < 20 for each in inner):
            return number, kind, broken(dice, inner)
    return number, kind, dice.choice(TEXTS)


def another_kind(dice, field):
    number, kind, _ = field
    return dice.choice([
        each for each in [(number, 0, 5), (number, 1, bytes(8)), (number, 2, b"abc"), (number, 5, bytes(4))]
        if each[1] != kind])


def broken(dice, fields):
    """The fields as bytes, with one thing wrong, or at least odd."""
    place = dice.randrange(len(fields))
    data = [encode(each) for each in fields]
    number, kind, value = fields[place]
    match dice.randrange(12):
        case 0:
            del data[place]
        case 1:
            data.append(data[place])
        case 2:
            data.reverse()
        case 3:
            data[place] = encode(another_kind(dice, fields[place]))
        case 4:
            data[place] = data[place][: dice.randrange(len(data[place]))]
        case 5:
            data[place] = varint(number << 3 | dice.choice([3, 4, 6, 7])) + data[place][1:]
        case 6:
            data[place] = varint(number << 3 | kind, extra=dice.randrange(1, 9)) + data[place][len(varint(number << 3)) :]
        case 7 if kind == 2:
            data[place] = varint(number << 3 | 2) + varint(dice.choice(NUMBERS)) + value
        case 8:
            data.insert(place, encode((dice.choice([6, 10, 13, 19, 100, (1 << 29) - 1]), 0, dice.choice(NUMBERS))))
        case _:
            data[place] = encode(another_value(dice, fields[place]))
    return b"".join(data)


def broken_fields(dice, message):
    fields = fields_of(message.SerializeToString())
    return broken(dice, fields) if fields else encode((dice.randrange(1, 30), 0, dice.choice(NUMBERS)))


def header_breaks(packet):
    """[(bytes, code)]: one field of the header wrong, and the code that says so on TCP."""
    return [
        *[(packet.encoded(length=length), ERROR_TOO_LARGE) for length in (0, 15, wire.LIMIT_AFTER_LOGIN + 1, 0xFFFFFFFF)],
        *[(packet.encoded(version=version), ERROR_UNSUPPORTED_VERSION) for version in (0, 2, 256, 0xFFFF)],
        *[(wire.Packet(packet.command, packet.payload, flags, 1).encoded(), ERROR_UNKNOWN_FLAGS)
          for flags in (8, 0x100, 0x8000)],
        *[(packet.encoded(reserved=reserved), ERROR_MALFORMED) for reserved in (1, 0x8000)],
    ]
