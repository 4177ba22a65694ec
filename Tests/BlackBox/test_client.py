"""The client against a small server in the same process, before it is trusted to judge a real one."""

import socket
import threading

import pytest

import golden
import simpwire as wire
from message_pb2 import Message
from receipt_pb2 import ACCEPTED, DELIVERED, LATER, Datagrams, Outcome, Receipt
from session_pb2 import ERROR_NOT_ONLINE, LoginReply, PathResponse, PathUp
from simpclient import Client


class Loopback(threading.Thread):
    """One session: proves the path and sends every message back as from the one it was for. `drops` says which of
    the client's datagrams are lost; a deaf one loses those with messages."""

    def __init__(self, drops=(), later=0, deaf=False):
        super().__init__(daemon=True)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.udp.bind(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.drops, self.later, self.deaf = set(drops), later, deaf
        self.opening = wire.Direction(golden.SECRET, wire.AES_128_GCM, "c2s")
        self.sealing = wire.Direction(golden.SECRET, wire.AES_128_GCM, "s2c")
        self.number, self.received, self.taken, self.delivered = 0, set(), set(), 0
        self.start()

    def run(self):
        self.tcp, _ = self.listener.accept()
        threading.Thread(target=self.take_datagrams, daemon=True).start()
        framer = wire.Framer(wire.LIMIT_AFTER_LOGIN)
        while data := self.tcp.recv(65536):
            for packet in framer.feed(data):
                self.take(packet)

    def take(self, packet):
        if packet.command == wire.LOGIN:
            reply = LoginReply(
                protocol=1, user="me", device_number=7, connection_id=golden.CONNECTION_ID,
                udp_port=self.udp.getsockname()[1], udp_secret=golden.SECRET, cipher=1, maximum_packet_bytes=262144,
                maximum_datagram_bytes=1200)
            self.answer(packet, reply)
        elif packet.command == wire.MESSAGE:
            self.echo(packet, [Outcome(state=ACCEPTED, user=packet.decoded().to_user,
                                       orders=[packet.decoded().order, 1])])
        elif packet.command == wire.RECEIPT:
            self.delivered += sum(each.state == DELIVERED for each in packet.decoded().outcomes)
        elif packet.command == wire.LOGOUT:
            self.answer(packet, packet.decoded())
            self.tcp.shutdown(socket.SHUT_RDWR)

    def answer(self, packet, message):
        self.tcp.sendall(wire.packet(packet.command, message, flags=wire.RESPONSE, sequence=packet.sequence).encoded())

    def echo(self, packet, outcomes=()):
        message = packet.decoded()
        if self.later:
            self.later -= 1
            outcomes = [Outcome(state=LATER, user=message.to_user, orders=[message.order, 1], code=ERROR_NOT_ONLINE,
                                retry_after_ms=20)]
        elif message.order not in self.taken:
            self.taken.add(message.order)
            relayed = packet.payload + Message(from_user=message.to_user, server_time=1).SerializeToString()
            self.tcp.sendall(wire.Packet(wire.MESSAGE, relayed).encoded())
        if outcomes:
            self.tcp.sendall(wire.packet(wire.RECEIPT, Receipt(outcomes=outcomes)).encoded())
        return bool(outcomes)

    def take_datagrams(self):
        while True:
            datagram, address = self.udp.recvfrom(65536)
            number, plain = self.opening.open(datagram)
            if number in self.drops or self.deaf and wire.packets_of(plain)[0].command == wire.MESSAGE:
                continue
            self.received.add(number)
            largest, runs, gaps = wire.ranges_of(self.received)
            receipt = Receipt(datagrams=Datagrams(largest=largest, runs=runs, gaps=gaps))
            answers = b""
            for packet in wire.packets_of(plain):
                if packet.command == wire.PATH_CHALLENGE:
                    answer = wire.packet(wire.PATH_RESPONSE, PathResponse(data=packet.decoded().data)).encoded()
                    answers = wire.padded_challenge(5, answer)
                elif packet.command == wire.PATH_RESPONSE:
                    up = PathUp(address=address[0], port=address[1])
                    self.tcp.sendall(wire.packet(wire.PATH_UP, up).encoded())
                elif packet.command == wire.MESSAGE:
                    if self.echo(packet):
                        receipt.datagrams.answered.append(number)
                    answers = wire.packet(wire.RECEIPT, receipt).encoded()
            if answers:
                self.udp.sendto(self.sealing.seal(golden.CONNECTION_ID, self.number, answers), address)
                self.number += 1


def connected(loopback):
    client = Client("127.0.0.1", loopback.port, "token")
    client.login()
    up = client.prove_path()
    assert (up.address, up.port) == client.udp.getsockname()
    return client


@pytest.mark.parametrize("drops", [(), (0, 3, 4), (1, 2, 5, 6, 7)])
def test_messages_go_out_and_come_back_once(drops):
    loopback = Loopback(drops)
    with connected(loopback) as client:
        sent = [client.send("bob", f"line {each}") for each in range(20)]
        client.wait(lambda: all(each.state() == ACCEPTED for each in sent))
        client.wait(lambda: len(client.inbox) == 20)
        assert sorted(client.texts("bob")) == sorted(f"line {each}" for each in range(20))
        client.wait(lambda: loopback.delivered == 20)
        client.logout()


def test_a_message_that_udp_never_carries_goes_by_tcp():
    with connected(Loopback(deaf=True)) as client:
        sent = client.send("bob", "hello")
        client.wait(lambda: sent.state() == ACCEPTED)
        assert sent.attempts == ["udp", "udp", "udp", "tcp"]


def test_later_is_offered_again():
    with connected(Loopback(later=3)) as client:
        sent = client.send("bob", "hello")
        client.wait(lambda: sent.state() == ACCEPTED)
        assert sent.states == [LATER, LATER, LATER, ACCEPTED]
        assert client.texts() == ["hello"]


def test_a_long_message_goes_by_tcp():
    with connected(Loopback()) as client:
        sent = client.send("bob", "x" * 5000)
        client.wait(lambda: client.texts() == ["x" * 5000])
        assert sent.attempts == ["tcp"]
