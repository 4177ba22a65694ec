"""Ways to break a packet in exactly one place, each with a name, so that a test can count them."""

import simpwire as wire
from session_pb2 import ERROR_MALFORMED, ERROR_TOO_LARGE, ERROR_UNKNOWN_FLAGS, ERROR_UNSUPPORTED_VERSION

NUMBERS = [0, 1, 127, 128, 16_383, 16_384, (1 << 24) - 1, 1 << 24, (1 << 32) - 1, 1 << 32, (1 << 40) - 1, 1 << 40,
           (1 << 63) - 1, 1 << 63, (1 << 64) - 1]
TEXTS = [b"", b"a\x00b", b"\x00", b"\xff\xfe", b"\xc0\x80", b"\xed\xa0\x80", b"\xf5\x80\x80\x80", b"a b", b"x" * 65,
         b"../etc", "ü".encode(), b"x" * 900]


# -- Protobuf, byte by byte


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


def encoded(fields):
    return b"".join(encode(each) for each in fields)


# -- One field of a payload. Each takes the dice, the fields and the place of the one to break, and gives bytes.


def dropped(dice, fields, place):
    return encoded(fields[:place] + fields[place + 1 :])


def twice(dice, fields, place):
    """With another value the second time: the last one counts."""
    return encoded(fields) + another_value(dice, fields, place, alone=True)


def moved(dice, fields, place):
    """To the other end."""
    rest = fields[:place] + fields[place + 1 :]
    return encoded(rest + [fields[place]] if place == 0 else [fields[place]] + rest)


def another_kind(dice, fields, place):
    number, kind, _ = fields[place]
    values = [(number, 0, 5), (number, 1, bytes(8)), (number, 2, b"abc"), (number, 5, bytes(4))]
    return _replaced(fields, place, encode(dice.choice([each for each in values if each[1] != kind])))


def a_group(dice, fields, place):
    """A kind that version 3 of the language does not have, or that nobody has."""
    number = fields[place][0]
    return _replaced(fields, place, varint(number << 3 | dice.choice([3, 4, 6, 7])) + encode(fields[place])[1:])


def cut(dice, fields, place):
    data = encode(fields[place])
    return encoded(fields[:place]) + data[: dice.randrange(1, len(data))] if len(data) > 1 else b"\x08"


def a_long_tag(dice, fields, place):
    number, kind, _ = fields[place]
    rest = encode(fields[place])[len(varint(number << 3 | kind)) :]
    return _replaced(fields, place, varint(number << 3 | kind, extra=dice.randrange(1, 9)) + rest)


def a_wrong_length(dice, fields, place):
    """Of a number: more bytes than one may have."""
    number, kind, value = fields[place]
    if kind == 2:
        size = dice.choice([each for each in NUMBERS if each != len(value)])
        return _replaced(fields, place, varint(number << 3 | 2) + varint(size) + value)
    return _replaced(fields, place, varint(number << 3 | 0) + b"\xff" * dice.choice([10, 11, 20]) + b"\x01")


def a_stranger(dice, fields, place):
    """A field that no version knows yet before it."""
    stranger = encode((dice.choice([30, 100, 15_999, (1 << 29) - 1]), 0, dice.choice(NUMBERS)))
    return encoded(fields[:place]) + stranger + encoded(fields[place:])


def another_value(dice, fields, place, alone=False):
    number, kind, value = fields[place]
    if kind == 2:
        field = number, kind, dice.choice([each for each in TEXTS if each != value])
    else:
        old = value if kind == 0 else int.from_bytes(value, "little")
        size = {0: 8, 1: 8, 5: 4}[kind]
        new = dice.choice([each for each in NUMBERS if each != old and each < 1 << 8 * size])
        field = number, kind, new if kind == 0 else new.to_bytes(size, "little")
    return encode(field) if alone else _replaced(fields, place, encode(field))


def _replaced(fields, place, data):
    return encoded(fields[:place]) + data + encoded(fields[place + 1 :])


WAYS = {each.__name__: each for each in [
    dropped, twice, moved, another_kind, a_group, cut, a_long_tag, a_wrong_length, a_stranger, another_value]}


def paths_of(descriptor):
    """Each field of a message, and of the messages in it, as a tuple of names."""
    for field in descriptor.fields:
        yield (field.name,)
        if field.message_type is not None:
            for inner in paths_of(field.message_type):
                yield field.name, *inner


def broken(dice, message, path, way):
    """The bytes of the message with that field broken that way. A field that the message lacks is put in first: that it
    is there at all is a break too."""
    names = {field.name: field for field in message.DESCRIPTOR.fields}
    field = names[path[0]]
    present = [each.name for each, _ in message.ListFields()]
    if path[0] not in present:
        other = type(message)()
        other.CopyFrom(message)
        setattr(other, path[0], "somebody" if field.type == field.TYPE_STRING else 7)
        message = other
    fields = fields_of(message.SerializeToString())
    place = next(index for index, each in enumerate(fields) if each[0] == field.number)
    if len(path) == 1:
        return WAYS[way](dice, fields, place)
    inner = getattr(message, path[0])
    if not hasattr(inner, "DESCRIPTOR"):
        inner = inner[0]
    return _replaced(fields, place, encode((field.number, 2, broken(dice, inner, path[1:], way))))


# -- The header of a packet

# field: (the values to put there, the code that says so on TCP; None where the stream goes on)
HEADER_BREAKS = {
    "length": ((0, 15, wire.LIMIT_AFTER_LOGIN + 1, 0xFFFFFFFF), ERROR_TOO_LARGE),
    "version": ((0, 2, 256, 0xFFFF), ERROR_UNSUPPORTED_VERSION),
    "flags": ((8, 0x100, 0x8000, 0xFFF8), ERROR_UNKNOWN_FLAGS),
    "service": ((0, 4, 5, 6, 0x100, 0xFFFF), None),
    "command": ((0, 12, 0x100, 0xFFFF), None),
    "sequence": ((0, 1, 0xFFFF), None),
    "reserved": ((1, 256, 0x8000, 0xFFFF), ERROR_MALFORMED),
}


def broken_header(dice, packet, field):
    """(bytes, what was put there)"""
    names = ("length", "version", "flags", "service", "command", "sequence", "reserved")
    fields = dict(zip(names, wire.HEADER.unpack(packet.encoded()[: wire.HEADER_BYTES])))
    value = dice.choice([each for each in HEADER_BREAKS[field][0] if each != fields[field]])
    return wire.HEADER.pack(*(fields | {field: value}).values()) + packet.payload, value
