"""What somebody who reads along on the link sees of a conversation."""

import base64

import pytest

from capture import packets
from link import Link
from people import Person, Server, Tap, wait_online

BODIES = [f"the secret of page {number} is a walnut" for number in range(40)]
LONG = "a long walnut " * 400  # goes by TCP


def conversation(tap_path, tls, *flags):
    """Alice writes to bob over a clean link. What must not be seen, by name, and what was: all payloads together, and
    those of TCP."""
    with Link(loss=0.0, delay_ms=2) as link, Server(link, tls=tls) as server:
        tokens = {user: server.token(user) for user in ("alice-in-the-open", "bob-in-the-open")}
        alice_name, bob_name = tokens
        tap = Tap(link, tap_path)
        with Person(link, server, bob_name, "listen", "-n", len(BODIES) + 1, "--timeout", "60s", *flags,
                    token=tokens[bob_name]) as bob:
            if not flags:
                wait_online(server, bob_name)
            with Person(link, server, alice_name, "send", bob_name, "--timeout", "60s", *flags, feed=True,
                        token=tokens[alice_name]) as alice:
                alice.feed([f"{body}\n".encode() for body in [*BODIES, LONG]])
                assert alice.finish(60) == 0, alice.err
            assert bob.finish(60) == 0, bob.err
        assert sorted(line.decode().rstrip("\n") for line in bob.out) == sorted([*BODIES, LONG])
        tap.read()
        key = (server.state / "s" / "signing.key").read_text().strip()
    secrets = {"a body": b"walnut", "a name": b"in-the-open", "the signing key": bytes.fromhex(key)}
    for user, token in tokens.items():
        for number, part in enumerate(token.split(".")):
            secrets[f"part {number} of the token of {user}"] = part.encode()
            secrets[f"part {number} of the token of {user}, decoded"] = base64.urlsafe_b64decode(part + "==")
    seen = list(packets(tap_path))
    datagrams = sum(protocol == "udp" for protocol, *_ in seen)
    assert datagrams == 0 if flags else datagrams > 3
    # Joined, so that what two packets share is found as well.
    tcp = b"".join(payload for protocol, *_, payload in seen if protocol == "tcp")
    return secrets, tap_path.read_bytes() + tcp, tcp


@pytest.mark.parametrize("flags", [(), ("--no-udp",)])
def test_a_conversation_shows_no_body_name_token_or_key(tmp_path, flags):
    secrets, seen, tcp = conversation(tmp_path / "link.pcap", True, *flags)
    assert len(tcp) > len(LONG)
    assert [name for name, secret in secrets.items() if secret in seen] == []


def test_the_same_search_finds_them_in_clear_text(tmp_path):
    secrets, _, tcp = conversation(tmp_path / "link.pcap", False)
    found = {name for name, secret in secrets.items() if secret in tcp}
    assert {"a body", "a name"} <= found and sum("token" in name for name in found) >= 6, found
