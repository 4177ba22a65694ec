"""One who writes a line again and again, one who reads, and a clock beside each line."""

import contextlib
import itertools
import json
import threading
import time

from people import Person, wait_online


class Talk:
    """Alice writes a line each `pause` seconds, bob listens; both clocks are this process's."""

    def __init__(self, link, server, *, pause=0.02, alice=(), bob=()):
        self.server, self.pause = server, pause
        #: Line number to when it was written, and to when it came and by which channel.
        self.written, self.came, self.order = {}, {}, []
        self._end = threading.Event()
        self._stack = contextlib.ExitStack()
        self.bob = self._stack.enter_context(Person(link, server, "bob", "listen", "--json", *bob, gather=self._take))
        if not bob:
            wait_online(server, "bob")
        self.alice = self._stack.enter_context(
            Person(link, server, "alice", "send", "bob", "--timeout", "170s", *alice, feed=True))
        self._thread = threading.Thread(target=self._write, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def _write(self):
        for number in itertools.count():
            self.written[number] = time.monotonic()
            self.alice.feed([b"%d\n" % number])
            if self._end.wait(self.pause):
                return

    def _take(self, line):
        message = json.loads(line)
        number = int(message["text"])
        self.order.append(number)
        self.came.setdefault(number, (time.monotonic(), message["via"]))

    def finish(self, seconds=180):
        """The last line is written, and all are delivered."""
        self._end.set()
        self._thread.join()
        assert self.alice.finish(seconds) == 0, self.alice.err
        end = time.monotonic() + seconds
        while len(self.came) < len(self.written):
            assert time.monotonic() < end, f"{len(self.came)} of {len(self.written)} lines came"
            time.sleep(0.01)
        assert self.order == list(range(len(self.written))), "a line is doubled or out of order"

    def __exit__(self, *error):
        self._end.set()
        self._thread.join(timeout=20)
        self._stack.__exit__(*error)

    # Figures

    def latencies(self, begin=0.0, end=float("inf")):
        """Of the lines written in that time, in seconds."""
        return sorted(self.came[number][0] - at for number, at in self.written.items() if begin <= at < end)

    def longest_pause(self, begin):
        """Between two lines that came one after the other since then, less the time between two that are written."""
        times = [begin] + [at for at, _ in sorted(self.came.values()) if at >= begin]
        return max((later - earlier for earlier, later in zip(times, times[1:])), default=0.0) - self.pause

    def first_by_udp(self, since):
        """Of the lines written since then: when the first came by UDP, None if none did."""
        return min((at for number, (at, via) in self.came.items() if via == "udp" and self.written[number] >= since),
                   default=None)

    @property
    def logins(self):
        return self.server.text().count(" login user=")
