"""Logs in and sends every kind of datagram under somebody else's address: the server must not become a weapon.

Run in a namespace of its own with SERVER PORT STATE VICTIM. Prints, as JSON, the bytes that went out for each kind (IP
headers included), by the victim's port that they pretend to come from.
"""

import json
import os
import pathlib
import random
import socket
import struct
import sys
import time

import simpwire as wire
from message_pb2 import Message
from receipt_pb2 import Datagrams, Receipt
from session_pb2 import PathResponse, Ping
from simpclient import Client
from simpserver import make_token

COPIES = 5
FIRST_PORT = 20000


def kinds(client):
    """Name and plain bytes of what a client may send; None: bytes that are no datagram of a session."""
    message = Message(
        message_id=client.device << 40 | 1, content="x" * 100, to_user=client.user, type=1, order=1, floor=1)
    unknown = wire.HEADER.pack(16, 1, 0, 1, 99, 0, 0)
    return {
        "challenge": wire.padded_challenge(random.getrandbits(63) | 1),
        "small challenge": wire.padded_challenge(random.getrandbits(63) | 1, total=200),
        "response": wire.packet(wire.PATH_RESPONSE, PathResponse(data=5)).encoded(),
        "ping": wire.packet(wire.PING, Ping(token=5)).encoded(),
        "message": wire.packet(wire.MESSAGE, message, flags=wire.WANTED).encoded(),
        "receipt": wire.packet(wire.RECEIPT, Receipt(datagrams=Datagrams(largest=1 << 40, runs=[1]))).encoded(),
        "unknown command": unknown,
        "nothing inside": b"",
        "everything": wire.padded_challenge(
            random.getrandbits(63) | 1,
            wire.packet(wire.PING, Ping(token=6)).encoded() + wire.packet(wire.MESSAGE, message).encoded()),
        "bad tag": None,
        "unknown id": None,
        "empty": None,
    }


class Spoofer:
    def __init__(self, server, victim, port):
        self.server, self.victim, self.port = server, victim, port
        self.raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
        self.sent = 0

    def sendto(self, datagram, address):
        length = 28 + len(datagram)
        ip = struct.pack(
            "!BBHHHBBH4s4s", 0x45, 0, length, 0, 0, 64, socket.IPPROTO_UDP, 0, socket.inet_aton(self.victim),
            socket.inet_aton(self.server))
        udp = struct.pack("!HHHH", self.port, address[1], 8 + len(datagram), 0)
        self.raw.sendto(ip + udp + datagram, (self.server, 0))
        self.sent += length


def main():
    server, port, state, victim = sys.argv[1], int(sys.argv[2]), pathlib.Path(sys.argv[3]), sys.argv[4]
    secret = bytes.fromhex((state / "signing.key").read_text().strip())
    pin = (state / "server.pin").read_text().strip()
    clients, report = [], {}

    def login(user):
        token = make_token(secret, {"sub": user, "exp": int(time.time()) + 600})
        client = Client(server, port, token, pin=pin)
        client.user = user
        client.login()
        clients.append(client)
        return client

    number = 0
    for moves in (False, True):  # before any path is proven, and away from one that is
        for name in kinds(login(f"probe{moves}")):
            client = login(f"spoof{number}")
            if moves:
                client.prove_path()
            spoofer = Spoofer(server, victim, FIRST_PORT + number)
            for copy in range(COPIES):
                plain = kinds(client)[name]
                if plain is not None:
                    client.send_datagram(plain, udp=spoofer)
                elif name == "empty":
                    spoofer.sendto(b"", client.server_udp)
                else:
                    datagram = bytearray(client.sealing.seal(client.session.connection_id, 1000 + copy, b"\0" * 16))
                    datagram[-1 if name == "bad tag" else 5] ^= 1
                    spoofer.sendto(bytes(datagram), client.server_udp)
            if moves:  # there is something that the server would like to send
                for _ in range(20):
                    client.send(client.user, "y" * 200, by="tcp")
            report[f"{name}{', moved' if moves else ''}"] = [spoofer.port, spoofer.sent]
            number += 1
    # Until the server has given its probes up.
    end = time.monotonic() + float(os.environ.get("SIMP_SPOOF_SECONDS", "8"))
    while time.monotonic() < end:
        for client in clients:
            client.pump(0.005)
    print(json.dumps(report))


main()
