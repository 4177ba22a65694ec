"""Reads what tcpdump saw on the link: which messages went by TCP, and how many datagrams passed.

The control channel is clear text in these runs, so the MESSAGE packets in its streams can be counted; what is not among them went in
sealed datagrams.
"""

import collections
import struct


def packets(path):
    """Yields (protocol, source, source port, destination, destination port, sequence, flags, payload)."""
    data = path.read_bytes()
    order = "<" if data[:4] in (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1") else ">"
    link = struct.unpack(order + "I", data[20:24])[0]
    assert link in (1, 12, 101), f"unexpected link type {link}"
    ethernet = 14 if link == 1 else 0
    offset = 24
    while offset + 16 <= len(data):
        length = struct.unpack(order + "I", data[offset + 8:offset + 12])[0]
        packet = data[offset + 16 + ethernet:offset + 16 + length]
        offset += 16 + length
        if len(packet) < 20 or packet[0] >> 4 != 4:
            continue
        ip = (packet[0] & 15) * 4
        total = struct.unpack("!H", packet[2:4])[0]
        source, destination = (".".join(map(str, packet[at:at + 4])) for at in (12, 16))
        body = packet[ip:total]
        if packet[9] == 17 and len(body) >= 8:
            ports = struct.unpack("!HH", body[:4])
            yield "udp", source, ports[0], destination, ports[1], 0, 0, body[8:]
        elif packet[9] == 6 and len(body) >= 20:
            ports = struct.unpack("!HH", body[:4])
            sequence = struct.unpack("!I", body[4:8])[0]
            yield "tcp", source, ports[0], destination, ports[1], sequence, body[13], body[(body[12] >> 4) * 4:]


class Capture:
    def __init__(self, path, server):
        self.datagrams = collections.Counter()
        starts, pieces = {}, collections.defaultdict(dict)
        for protocol, source, sport, destination, dport, sequence, flags, payload in packets(path):
            way = "down" if source == server else "up"
            if protocol == "udp":
                self.datagrams[way] += 1
                continue
            stream = (way, source, sport, destination, dport)
            if flags & 2:
                starts[stream] = sequence + 1 & 0xFFFFFFFF
            elif payload:
                old = pieces[stream].get(sequence, b"")
                if len(payload) > len(old):
                    pieces[stream][sequence] = payload
        # Message IDs by TCP, each time one went: towards the server, and from it.
        self.up, self.down = [], []
        for stream, parts in pieces.items():
            if stream not in starts:
                continue
            (self.up if stream[0] == "up" else self.down).extend(message_ids(join(starts[stream], parts)))


def join(start, parts):
    """The bytes of one TCP direction as far as they were seen without a gap."""
    out = bytearray()
    for sequence, payload in sorted(parts.items(), key=lambda part: part[0] - start & 0xFFFFFFFF):
        at = sequence - start & 0xFFFFFFFF
        if at > len(out):
            break
        out[at:at + len(payload)] = payload if at + len(payload) > len(out) else out[at:at + len(payload)]
    return bytes(out)


def message_ids(stream):
    offset = 0
    while offset + 16 <= len(stream):
        length, _, _, service, command = struct.unpack("!IHHHH", stream[offset:offset + 12])
        if length < 16:
            return
        if (service, command) == (2, 1) and offset + length <= len(stream):
            yield first_varint(stream[offset + 16:offset + length])
        offset += length


def first_varint(payload):
    """The value of field 2, which comes first in a Message."""
    assert payload[0] == 2 << 3
    value = shift = 0
    for byte in payload[1:]:
        value |= (byte & 127) << shift
        if byte < 128:
            return value
        shift += 7
    raise AssertionError("a varint without end")
