"""A TLS connection whose records the test holds in its hands."""

import socket
import ssl

import simptls
import simpwire as wire


class Tunnel:
    def __init__(self, server, context=simptls.context()):
        self.stream = socket.create_connection((server.host, server.port), timeout=20)
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.incoming, self.outgoing, server_hostname="localhost")
        self.framer = wire.Framer(wire.LIMIT_AFTER_LOGIN)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stream.close()

    def _read_more(self):
        data = self.stream.recv(65536)
        if not data:
            raise ConnectionError("the server closed")
        self.incoming.write(data)

    def shake_hands(self):
        while True:
            try:
                self.tls.do_handshake()
                self.stream.sendall(self.outgoing.read())
                return
            except ssl.SSLWantReadError:
                self.stream.sendall(self.outgoing.read())
                self._read_more()

    def record(self, packet):
        """The packet in a record of its own, which is not sent."""
        self.tls.write(packet.encoded())
        return self.outgoing.read()

    def ask(self, packet):
        """The first packet that comes back."""
        self.stream.sendall(self.record(packet))
        packets = []
        while not packets:
            try:
                packets = self.framer.feed(self.tls.read(65536))
            except ssl.SSLWantReadError:
                self._read_more()
        return packets[0]

    def closes(self):
        """The server takes the connection down, within the time of the socket."""
        try:
            while self.stream.recv(65536):
                pass
        except ConnectionError:
            pass
        return True
