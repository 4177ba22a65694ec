"""A SIMP client in Python, written from Protocols/WIRE.md. One thread: everything happens inside `wait` and `pump`."""

import random
import select
import socket
import ssl
import time
from dataclasses import dataclass, field

import simptls
import simpwire as wire
from message_pb2 import TEXT, Message
from receipt_pb2 import ACCEPTED, DELIVERED, EXPIRED, LATER, READ, REJECTED, STORED, Datagrams, Outcome, Receipt
from session_pb2 import ERROR_UNAVAILABLE, Login, PathResponse, Ping

FINAL = {STORED, DELIVERED, READ, REJECTED, EXPIRED}
WOULD_BLOCK = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
PATIENCE = 30  # seconds a busy machine gets for what should happen at once
CHALLENGE_TIMES = (0.0, 0.06, 0.15, 0.3, 0.5, 0.75)


class Refused(Exception):
    def __init__(self, error):
        super().__init__(f"{error.code} {error.text}")
        self.code, self.text, self.retry_after_ms = error.code, error.text, error.retry_after_ms


@dataclass
class Outgoing:
    """A message in the outbox, and what is known of it."""

    message: Message
    states: list = field(default_factory=list)  # Outcomes in the order they came; ACCEPTED by (a) as state alone
    code: int = 0
    attempts: list = field(default_factory=list)  # "udp" or "tcp"
    due: float | None = None  # when to offer it again

    def state(self):
        return self.states[-1] if self.states else None

    @property
    def is_final(self):
        return bool(FINAL & set(self.states))


class Client:
    """Public attributes are what tests look at; the switches make the client misbehave on purpose. With a pin it speaks
    TLS, and only to the server that has this key; without, clear text."""

    def __init__(self, host, port, token, *, pin=None, outbox_id=None, device=0, send_only=False,
                 ciphers=(wire.AES_128_GCM,), room=(1024, 1 << 22)):
        self.host, self.port, self.token, self.pin = host, port, token, pin
        self.outbox_id = outbox_id or random.SystemRandom().randrange(1, 1 << 64)
        self.device, self.send_only, self.ciphers, self.room = device, send_only, ciphers, room
        self.counter = 0
        self.orders = {}  # user to the last order given
        self.outbox = {}  # (user, order) to Outgoing
        self.seen = {}  # (user, device) to orders shown
        self.inbox, self.via, self.payloads, self.duplicates = [], {}, {}, 0
        # Switches.
        self.confirms = True  # sends DELIVERED
        self.receipts = True  # sends part (a)
        self.features = wire.KEPT_OUTCOMES  # those it announces
        self.says_back = True  # what is kept for it
        self.answers_challenges = True
        self.retransmits = True
        self.loses_outgoing = lambda number: False
        self.loses_incoming = lambda number: False
        self.key_phase_packets = 1 << 16  # after so many datagrams our key changes, once one of them was receipted
        self.tcp = self.udp = None

    # -- Connection

    def connect(self):
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        self.tcp = socket.create_connection((self.host, self.port), timeout=PATIENCE)
        self.tcp.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        own = self.tcp.getsockname()[0]
        if self.pin:
            self.tcp = simptls.wrap(self.tcp, self.pin)
        self.tcp.setblocking(False)
        self.udp = socket.socket(family, socket.SOCK_DGRAM)
        self.udp.bind((own, 0))
        self.udp.setblocking(False)
        self.framer = wire.Framer()
        self.unsent = b""
        self.closed = False  # the server closed TCP
        self.ended = None
        self.session = None
        self.sequence = 0
        self.responses, self.errors, self.probe_requests, self.outcomes = {}, [], 0, []
        self.pongs = set()  # tokens that came back by UDP
        self.challenges, self.challenge_due, self.proof = set(), [], None
        self.path_up = None
        self.number = 0
        self.sent_datagrams = {}  # number to (time, [Outgoing])
        self.receipted, self.received = set(), set()
        self.receipt_due, self.unreceipted, self.datagrams_in = None, 0, []
        self.receipted_up_to = -1
        return self

    def login(self, timeout=PATIENCE, patient=True, **overrides):
        """A server whose Redis is slow for a moment (a busy machine) is asked again, unless told otherwise."""
        end = time.monotonic() + timeout
        while True:
            try:
                return self._login(timeout, overrides)
            except Refused as refused:
                if not patient or refused.code != ERROR_UNAVAILABLE or time.monotonic() > end:
                    raise
                self.close()
                time.sleep(refused.retry_after_ms / 1000)

    def _login(self, timeout, overrides):
        if self.tcp is None:
            self.connect()
        fields = dict(
            token=self.token, protocol_min=1, protocol_max=1, features=self.features, outbox_id=self.outbox_id, device_number=self.device,
            send_only=self.send_only, software="blackbox/1", receive_messages=self.room[0],
            receive_bytes=self.room[1], ciphers=self.ciphers)
        reply = self.request(wire.LOGIN, Login(**(fields | overrides)), timeout)
        self.session = reply
        self.device = reply.device_number
        self.framer.limit = reply.maximum_packet_bytes
        if reply.udp_port:
            self.sealing = wire.Direction(reply.udp_secret, reply.cipher, "c2s")
            self.opening = wire.Direction(reply.udp_secret, reply.cipher, "s2c")
            self.phase_begin = 0  # number of the first datagram under our present key
            self.former, self.opened_from = None, None  # the server's key before, and the lowest number under the present
        return reply

    def close(self):
        for each in (self.tcp, self.udp):
            if each is not None:
                each.close()
        self.tcp = self.udp = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def request(self, command, message, timeout=PATIENCE):
        self.sequence += 1
        mine = self.sequence
        self.send_packet(wire.packet(command, message, sequence=mine))
        answer = self.wait(lambda: self.responses.get((command, mine)) or self.closed, timeout)
        if answer is True:
            raise ConnectionError(f"closed without an answer, ended: {self.ended}")
        if answer.is_error:
            raise Refused(answer.decoded())
        return answer.decoded()

    def logout(self):
        assert self.request(wire.LOGOUT, Ping(token=7)).token == 7
        self.wait(lambda: self.closed)

    # -- Path

    @property
    def server_udp(self):
        return (self.host, self.session.udp_port)

    def prove_path(self, timeout=PATIENCE):
        """Challenges until the server says that the path is up: where much is lost, longer than the wire document's first
        second."""
        def is_up():
            if not self.challenge_due:
                self.challenge_due = [time.monotonic() + CHALLENGE_TIMES[-1]]
            return self.path_up

        self.start_proof()
        self.wait(is_up, timeout)
        self.challenge_due = []
        return self.path_up

    def start_proof(self):
        now = time.monotonic()
        self.challenge_due = [now + each for each in CHALLENGE_TIMES]

    def send_challenge(self, total=wire.DATAGRAM_BYTES, udp=None):
        data = random.SystemRandom().randrange(1, 1 << 64)
        self.challenges.add(data)
        return self.send_datagram(wire.padded_challenge(data, total=total), udp=udp)

    # -- Messages

    def compose(self, user, content="", **fields):
        """Puts a message into the outbox."""
        self.counter += 1
        order = self.orders[user] = self.orders.get(user, 0) + 1
        values = dict(
            message_id=self.device << 40 | self.counter, time=time.time_ns() // 1_000_000, content=content,
            to_user=user, type=TEXT, order=order)
        outgoing = Outgoing(Message(**(values | fields)))
        self.outbox[user, order] = outgoing
        return outgoing

    def floor(self, user):
        return min((o for (u, o), each in self.outbox.items() if u == user and not each.is_final),
                   default=self.orders.get(user, 0) + 1)

    def send(self, user, content="", by=None, **fields):
        outgoing = self.compose(user, content, **fields)
        self.transmit([outgoing], by)
        return outgoing

    def transmit(self, batch, by=None, flags=wire.WANTED):
        """Sends messages in one datagram if they fit and the path is up, else by TCP, or as `by` says."""
        for outgoing in batch:
            outgoing.message.floor = min(self.floor(outgoing.message.to_user), outgoing.message.order)
        packets = [wire.packet(wire.MESSAGE, each.message, flags=flags if by != "tcp" else 0) for each in batch]
        size = sum(len(each.encoded()) for each in packets) + wire.HEADER_BYTES + wire.TAG_BYTES
        by = by or ("udp" if self.path_up and size <= wire.DATAGRAM_BYTES else "tcp")
        for outgoing in batch:
            outgoing.attempts.append(by)
            wait = 5.0 if by == "tcp" else 0.2 * 2 ** min(outgoing.attempts.count("udp") - 1, 3)
            outgoing.due = time.monotonic() + wait
        if by == "udp":
            return self.send_datagram(b"".join(each.encoded() for each in packets), batch)
        for each in packets:
            self.send_packet(wire.Packet(each.command, each.payload))
        return None

    def send_outcome(self, state, message, **fields):
        outcome = Outcome(state=state, user=message.from_user, device=message.message_id >> 40,
                          orders=[message.order, 1], **fields)
        self.send_packet(wire.packet(wire.RECEIPT, Receipt(outcomes=[outcome])))

    # -- Sending bytes

    def send_packet(self, packet):
        self.send_bytes(packet.encoded())

    def send_bytes(self, data):
        """By TCP, without waiting for room."""
        self.unsent += data
        self._flush()

    def _flush(self):
        try:
            while self.unsent:
                self.unsent = self.unsent[self.tcp.send(self.unsent) :]
        except WOULD_BLOCK:
            pass
        except OSError:
            self.unsent = b""  # reading tells that the connection is gone

    def send_datagram(self, plain, messages=(), *, udp=None, number=None):
        """Seals and sends; returns the packet number."""
        if number is None:
            number, self.number = self.number, self.number + 1
            self._change_key(number)
        self.sent_datagrams[number] = (time.monotonic(), list(messages))
        if not self.loses_outgoing(number):
            self.send_raw(self.sealing.seal(self.session.connection_id, number, plain), udp)
        return number

    def _change_key(self, number):
        """Only after a datagram of the present phase was receipted: else the server could not tell two changes apart."""
        confirmed = bool(self.receipted) and max(self.receipted) >= self.phase_begin
        if confirmed and number - self.phase_begin >= self.key_phase_packets:
            self.sealing, self.phase_begin = self.sealing.next(), number

    def _open(self, datagram):
        number, phase = int.from_bytes(datagram[8:16], "big"), datagram[1]
        if phase == self.opening.number & 1:
            opened = self.opening.open(datagram)
        elif self.opened_from is not None and number < self.opened_from:
            return self.former.open(datagram)
        else:
            following = self.opening.next()
            opened = following.open(datagram)
            assert self.opened_from is not None, "the server changed its key before the first one was used"
            assert self.receipted_up_to >= self.opened_from, "the server changed its key again before it was receipted"
            self.former, self.opening, self.opened_from = self.opening, following, number
        self.opened_from = number if self.opened_from is None else min(self.opened_from, number)
        return opened

    def send_raw(self, datagram, udp=None):
        (udp or self.udp).sendto(datagram, self.server_udp)

    def send_part_a(self):
        largest, runs, gaps = wire.ranges_of(self.received)
        datagrams = Datagrams(largest=largest, runs=runs[:32], gaps=gaps[: len(runs[:32]) - 1])
        self.receipt_due, self.unreceipted, self.receipted_up_to = None, 0, largest
        return self.send_datagram(wire.packet(wire.RECEIPT, Receipt(datagrams=datagrams)).encoded())

    def ping_by_udp(self, token, flags=0):
        """Until it is answered: one that the kernel dropped is sent again. The number of the last one sent."""
        plain = wire.packet(wire.PING, Ping(token=token), sequence=token & 0xFFFF, flags=flags).encoded()
        again, number = 0.0, None

        def is_answered():
            nonlocal again, number
            if token not in self.pongs and time.monotonic() >= again:
                again, number = time.monotonic() + 1, self.send_datagram(plain)
            return token in self.pongs

        self.wait(is_answered)
        return number

    def quiet(self):
        """Until nothing is under way by UDP: all of ours is receipted, and all of the server's."""
        number = self.ping_by_udp(random.SystemRandom().randrange(1 << 40, 1 << 60), wire.WANTED)
        self.wait(lambda: number in self.receipted)
        self.send_part_a()
        # The answer to this request comes after that was read.
        for _ in range(2):
            self.request(wire.PING, Ping(token=6))
        self.settle(0.25)

    # -- Receiving

    def wait(self, condition, timeout=PATIENCE):
        """Pumps until the condition gives something true, which it returns."""
        end = time.monotonic() + timeout
        while not (value := condition()):
            left = end - time.monotonic()
            assert left > 0, f"timed out after {timeout} s; {self!r}"
            self.pump(min(left, 0.02))
        return value

    def pump(self, seconds=0.0):
        """Takes what is there, at most `seconds` late, and does what is due."""
        # Datagrams first: what came by both roads came by UDP, however late it is looked at.
        sockets = [each for each in (self.udp, None if self.closed else self.tcp) if each is not None]
        for each in select.select(sockets, [], [], seconds)[0]:
            if each is self.tcp:
                self._read_stream()
            else:
                self._read_datagrams(each)
        if not self.closed and self.tcp is not None:
            self._flush()
        if self.session is not None:
            self._do_what_is_due(time.monotonic())

    def settle(self, seconds):
        """Pumps for a time: for a test that nothing happens."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self.pump(min(left, 0.02))

    def _read_stream(self):
        try:
            while data := self.tcp.recv(65536):
                for packet in self.framer.feed(data):
                    self._take(packet, "tcp")
                    if packet.command == wire.LOGIN and packet.is_response and not packet.is_error:
                        self.framer.limit = wire.LIMIT_AFTER_LOGIN
            self.closed = True
        except WOULD_BLOCK:
            pass
        except OSError:
            self.closed = True

    def _read_datagrams(self, udp):
        try:
            while True:
                datagram, address = udp.recvfrom(65536)
                self.take_datagram(datagram, address)
        except BlockingIOError:
            pass

    def take_datagram(self, datagram, address=None):
        self.datagrams_in.append((datagram, address))
        if self.session is None:
            return
        assert len(datagram) <= self.session.maximum_datagram_bytes
        assert int.from_bytes(datagram[2:8], "big") == self.session.connection_id
        number, plain = self._open(datagram)
        if self.loses_incoming(number):
            return
        assert number not in self.received, f"the server used packet number {number} twice"
        gap = bool(self.received) and number != max(self.received) + 1
        self.received.add(number)
        packets = wire.packets_of(plain)
        quiet = {wire.RECEIPT, wire.PATH_CHALLENGE, wire.PATH_RESPONSE}
        if self.receipts and any(each.command not in quiet for each in packets):
            self.unreceipted += 1
            if self.receipt_due is None:
                self.receipt_due = time.monotonic() + 0.1
            if gap or self.unreceipted >= 32 or any(each.flags & wire.WANTED for each in packets):
                self.receipt_due = 0.0
        for each in packets:
            self._take(each, "udp")

    def _take(self, packet, via):
        if packet.is_response:
            if packet.command == wire.PING and via == "udp":
                self.pongs.add(packet.decoded().token)
                return
            self.responses[packet.command, packet.sequence] = packet
            if packet.is_error:
                self.errors.append(packet.decoded())
            return
        value = packet.decoded()
        if packet.command == wire.PING:
            answer = wire.packet(wire.PING, value, flags=wire.RESPONSE, sequence=packet.sequence)
            if via == "tcp":
                self.send_packet(answer)
            else:
                self.send_datagram(answer.encoded())
        elif packet.command == wire.ENDED:
            self.ended = value
        elif packet.command == wire.PROBE_REQUEST:
            self.probe_requests += 1
            self.challenge_due.append(time.monotonic())
        elif packet.command == wire.PATH_CHALLENGE:
            if self.answers_challenges:
                self.send_datagram(wire.packet(wire.PATH_RESPONSE, PathResponse(data=value.data)).encoded())
        elif packet.command == wire.PATH_RESPONSE:
            if value.data in self.challenges:
                self.proof = value.data
        elif packet.command == wire.PATH_UP:
            self.path_up, self.challenge_due = value, []
        elif packet.command == wire.MESSAGE:
            self._take_message(value, packet.payload, via)
        elif packet.command == wire.RECEIPT:
            self._take_receipt(value, via)

    def _take_message(self, message, payload, via):
        seen = self.seen.setdefault((message.from_user, message.message_id >> 40), set())
        if message.order in seen:
            self.duplicates += 1
        else:
            seen.add(message.order)
            self.inbox.append(message)
            self.via[message.from_user, message.message_id] = via
            self.payloads[message.from_user, message.message_id] = payload
        if self.confirms:
            self.send_outcome(DELIVERED, message)

    def _take_receipt(self, receipt, via):
        if receipt.HasField("datagrams"):
            arrived = wire.numbers_of(receipt.datagrams)
            assert arrived <= self.sent_datagrams.keys(), "the server receipts what was never sent"
            for number in arrived - self.receipted:
                for outgoing in self.sent_datagrams[number][1]:
                    if number not in receipt.datagrams.answered:
                        self._settle(outgoing, ACCEPTED)
                    elif outgoing.state() is None:
                        outgoing.due = time.monotonic() + 5.0
            self.receipted |= arrived
        assert via == "tcp" or not receipt.outcomes, "outcomes travel on TCP only"
        for outcome in receipt.outcomes:
            self.outcomes.append(outcome)
            assert not outcome.kept or self.features & wire.KEPT_OUTCOMES, "it did not ask for what is kept"
            if outcome.kept and self.says_back:
                self.send_packet(wire.packet(wire.RECEIPT, Receipt(outcomes=[outcome])))
            for order in wire.orders_of(outcome):
                if outgoing := self.outbox.get((outcome.user, order)):
                    outgoing.code = outcome.code
                    self._settle(outgoing, outcome.state, outcome.retry_after_ms)

    def _settle(self, outgoing, state, retry_after_ms=0):
        if outgoing.is_final and state not in FINAL:
            return  # a receipt that was overtaken
        was_later = outgoing.state() == LATER
        outgoing.states.append(state)
        if outgoing.is_final:
            outgoing.due = None
        elif state == LATER:
            outgoing.due = time.monotonic() + retry_after_ms / 1000
        else:
            outgoing.due = time.monotonic() + 5.0
        if was_later and state != LATER and self.retransmits:
            for key in sorted(self.outbox):
                if key[0] == outgoing.message.to_user and self.outbox[key].state() == LATER:
                    self.transmit([self.outbox[key]], by="tcp")

    def _do_what_is_due(self, now):
        if self.closed:
            return
        if self.session.udp_port:
            while self.challenge_due and self.challenge_due[0] <= now:
                self.challenge_due.pop(0)
                self.send_challenge()
            if self.receipt_due is not None and self.receipt_due <= now:
                self.send_part_a()
        if self.retransmits:
            for outgoing in self._due(now):
                accepted = outgoing.state() == ACCEPTED
                stubborn = len(outgoing.attempts) >= 3 and set(outgoing.attempts[-3:]) == {"udp"}
                later = outgoing.state() == LATER
                self.transmit([outgoing], by="tcp" if accepted or stubborn or later else None)

    def _due(self, now):
        """What is to be sent again, lowest order first. Of a conversation in which something was answered LATER only
        the lowest such: what is behind it would be answered LATER as well."""
        due = []
        for user in {user for user, _ in self.outbox}:
            open_ones = [self.outbox[key] for key in sorted(self.outbox) if key[0] == user]
            blocked = False
            for outgoing in open_ones:
                if outgoing.due is not None and outgoing.due <= now and not blocked:
                    due.append(outgoing)
                blocked = blocked or outgoing.state() == LATER
        return due

    def texts(self, user=None):
        return [each.content for each in self.inbox if user in (None, each.from_user)]

    def __repr__(self):
        states = {key: each.states for key, each in list(self.outbox.items())[-3:]}
        return (f"<Client closed={self.closed} ended={self.ended} path={self.path_up} errors={self.errors} "
                f"inbox={len(self.inbox)} outbox={states} datagrams in={len(self.datagrams_in)}>")


def wait_all(clients, condition, timeout=PATIENCE):
    """Pumps several clients until the condition holds."""
    end = time.monotonic() + timeout
    while not (value := condition()):
        assert time.monotonic() < end, f"timed out after {timeout} s; {clients!r}"
        for each in clients:
            each.pump(0.002)
    return value


def finished(program, clients, timeout=PATIENCE):
    """Pumps the clients until the program has ended; its exit status."""
    wait_all(clients, lambda: program.process.poll() is not None, timeout)
    return program.finish()
