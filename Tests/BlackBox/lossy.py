"""Stands between clients and a server on another loopback address, on the same ports: passes TCP as it is, and
datagrams with loss, or from a new address as an address translator does when it forgot the old one."""

import select
import socket
import threading

from simpserver import HOST


class Lossy:
    """`loses(way, datagram)` decides for each datagram; way is "c2s" or "s2c". Use as `with`."""

    host = "127.0.0.2"

    def __init__(self, server, loses=lambda way, datagram: False):
        self.server, self.loses = server, loses
        self.passed = {"c2s": 0, "s2c": 0}
        self.lost = {"c2s": 0, "s2c": 0}
        self._listener = socket.create_server((self.host, server.port))
        self._udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._udp.bind((self.host, server.udp_port))
        self._outer = {}  # client address to the socket that the server sees
        self._pipes = {}  # socket to its other end
        self._stop_reading, self._stop = socket.socketpair()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.send(b"x")
        self._thread.join(10)
        for each in [self._listener, self._udp, self._stop, self._stop_reading, *self._pipes, *self._outer.values()]:
            each.close()

    def rebind(self):
        """From the next datagram on the server sees every client come from another port."""
        self._outer, old = {}, self._outer
        self._abandoned = old  # keeps the old ports taken, so that none is given again

    def _run(self):
        while True:
            outer = dict(self._outer)
            back = {each: client for client, each in outer.items()}
            ready = select.select([self._stop_reading, self._listener, self._udp, *self._pipes, *back], [], [], 0.05)[0]
            for each in ready:
                if each is self._stop_reading:
                    return
                if each is self._listener:
                    inner, _ = self._listener.accept()
                    there = socket.create_connection((HOST, self.server.port))
                    self._pipes[inner], self._pipes[there] = there, inner
                elif each is self._udp:
                    datagram, client = each.recvfrom(65536)
                    if client not in self._outer:
                        self._outer[client] = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
                        self._outer[client].bind((HOST, 0))
                    if self._passes("c2s", datagram):
                        self._outer[client].sendto(datagram, (HOST, self.server.udp_port))
                elif each in back:
                    datagram = each.recv(65536)
                    if self._passes("s2c", datagram):
                        self._udp.sendto(datagram, back[each])
                elif each in self._pipes:
                    self._pass_stream(each)

    def _passes(self, way, datagram):
        lost = self.loses(way, datagram)
        (self.lost if lost else self.passed)[way] += 1
        return not lost

    def _pass_stream(self, source):
        there = self._pipes[source]
        try:
            data = source.recv(65536)
            if data:
                return there.sendall(data)
        except OSError:
            pass
        for each in (source, there):
            self._pipes.pop(each, None)
            each.close()
        return None
