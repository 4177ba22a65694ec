"""Somebody with a login of his own writes a victim's address on his datagrams: what the victim gets is three times what
was sent under its address at most, whatever was in it, and nothing for what is no datagram of a session."""

import collections
import json
import os
import pathlib
import signal
import subprocess

import pytest

from capture import packets
from field import PEOPLE, SERVER_FOR_FLOODER, Field, FieldServer
from people import PORT

HERE = pathlib.Path(__file__).resolve().parent
BLACK_BOX = HERE.parent / "BlackBox"
PROTO = HERE.parent.parent / ".build" / "blackbox" / "proto"
UNANSWERED = ("bad tag", "unknown id", "empty")


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Kind to (bytes sent, bytes that reached the victim)."""
    capture = tmp_path_factory.mktemp("spoof") / "victim.pcap"
    with Field() as field, FieldServer(field) as server:
        # Addresses of another cable come in here on purpose.
        for name in ("all", "sf0"):
            subprocess.run(
                ["ip", "netns", "exec", field.server, "sysctl", "-qw", f"net.ipv4.conf.{name}.rp_filter=0"], check=True)
        tap = field.popen(
            field.people,
            ["tcpdump", "-i", "p0", "-U", "--immediate-mode", "-B", "8192", "-Z", "root", "-w", capture, "udp"],
            stderr=subprocess.PIPE, text=True)
        assert "listening" in tap.stderr.readline()
        spoofer = field.popen(
            field.flooder,
            [os.sys.executable, HERE / "spoof.py", SERVER_FOR_FLOODER, PORT, server.state / "s", PEOPLE],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=os.environ | {"PYTHONPATH": f"{BLACK_BOX}:{PROTO}"})
        out, err = spoofer.communicate(timeout=120)
        tap.send_signal(signal.SIGINT)
        tap.wait(timeout=20)
        tap.stderr.close()
        assert spoofer.returncode == 0, err
        assert server.process.poll() is None, server.text()[-4000:]
    reached = collections.Counter()
    for protocol, _, _, destination, port, _, _, payload in packets(capture):
        if protocol == "udp" and destination == PEOPLE:
            reached[port] += 28 + len(payload)
    results = {kind: (sent, reached[port]) for kind, (port, sent) in json.loads(out).items()}
    for kind, (sent, came) in results.items():
        print(f"{kind:26} sent {sent:5} reached the victim {came:5} = {came / sent:.2f}")
    return results


def test_a_victim_gets_three_times_what_was_sent_at_most(results):
    assert len(results) == 24
    too_much = {kind: pair for kind, pair in results.items() if pair[1] > 3 * pair[0]}
    assert too_much == {}, results


def test_what_is_no_datagram_of_a_session_is_not_answered(results):
    answered = {kind: pair for kind, pair in results.items() if kind.startswith(UNANSWERED) and pair[1] > 0}
    assert answered == {}, results


def test_a_challenge_under_another_address_is_answered_there(results):
    """The address did pass for the victim's: without answers the two tests above would say nothing."""
    assert results["challenge"][1] > 0 and results["challenge, moved"][1] > 0, results
