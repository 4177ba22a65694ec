"""Messages and receipts between two Python clients through a running server."""

import random
import time

import pytest

import simpwire as wire
from message_pb2 import AUDIO, IMAGE, Attachment, Message
from receipt_pb2 import ACCEPTED, DELIVERED, LATER, REJECTED, Outcome, Receipt
from session_pb2 import (
    ERROR_DEVICE_MISMATCH, ERROR_FIELD_FORBIDDEN, ERROR_MALFORMED, ERROR_NAME_INVALID, ERROR_NO_ROOM, ERROR_NOT_ONLINE,
    ERROR_OUTSIDE_WINDOW, ERROR_REPLACED, ERROR_TOO_LARGE, Ping,
)
from simpclient import PATIENCE, wait_all
from simpserver import Clients


@pytest.fixture
def pair(clients, names):
    alice, bob = names("alice", "bob")
    a, b = clients.online(alice), clients.online(bob)
    a.name, b.name = alice, bob
    return a, b


def settled(*outgoing):
    return all(each.is_final for each in outgoing)


def test_two_people_chat_by_udp(pair):
    alice, bob = pair
    turn, end = 0, time.monotonic() + 2 * PATIENCE
    # When one is held up for a moment, its path goes down, and messages go by TCP until it is proven anew.
    while turn < 25 or min(list(each.via.values()).count("udp") for each in pair) < 20:
        assert time.monotonic() < end, f"too few by UDP in {turn} turns"
        for here, there in ((alice, bob), (bob, alice)):
            sent = here.send(there.name, f"line {turn} of {here.name}")
            wait_all(pair, lambda: settled(sent))
            assert sent.attempts[0] == "udp" and sent.state() == DELIVERED
        turn += 1
    for here, there in ((alice, bob), (bob, alice)):
        assert here.texts() == [f"line {number} of {there.name}" for number in range(turn)]
        assert {each.from_user for each in here.inbox} == {there.name}
        assert all(abs(each.server_time - time.time() * 1000) < 60_000 for each in here.inbox)


def test_many_messages_in_few_datagrams(pair):
    alice, bob = pair
    with_new_ones, take = [], bob.take_datagram

    def count(datagram, address=None):
        before = len(bob.inbox)
        take(datagram, address)
        if len(bob.inbox) > before:
            with_new_ones.append(len(bob.inbox) - before)

    bob.take_datagram = count
    sent = [alice.compose(bob.name, f"{number:04}") for number in range(600)]
    for start in range(0, len(sent), 12):
        alice.transmit(sent[start : start + 12], flags=0)
        alice.pump()
        bob.pump()
    wait_all(pair, lambda: settled(*sent))
    assert sorted(bob.texts()) == [f"{number:04}" for number in range(600)]
    assert {each.state() for each in sent} == {DELIVERED}
    # The server gathers messages for one peer too. What is sent again when the machine is slow does not count.
    assert len(with_new_ones) < 450


def test_the_relayed_payload_is_what_was_sent_with_two_fields_behind_it(pair):
    alice, bob = pair
    fields = dict(
        type=IMAGE, image_url="https://media.example.org/a.jpg", image_scale=1.5, custom=bytes([0, 255]),
        attachment=Attachment(url="https://media.example.org/a", sha256=bytes(32), size=70_000, mime="image/jpeg"))
    sent = alice.send(bob.name, "grüß dich 👋", **fields)
    wait_all(pair, lambda: bob.inbox)
    got = bob.inbox[0]
    payload = bob.payloads[alice.name, sent.message.message_id]
    mine = sent.message.SerializeToString()
    assert payload.startswith(mine)
    appended = Message.FromString(payload[len(mine) :])
    assert {field.name for field, _ in appended.ListFields()} == {"from_user", "server_time"}
    assert appended.from_user == got.from_user == alice.name
    got.ClearField("from_user"), got.ClearField("server_time")
    assert got == sent.message


def test_an_unknown_field_and_type_are_relayed(pair):
    alice, bob = pair
    sent = alice.compose(bob.name, "from the future", type=77)
    sent.message.floor = 1
    payload = sent.message.SerializeToString() + bytes([0xA2, 0x06, 0x03, 1, 2, 3])
    alice.send_packet(wire.Packet(wire.MESSAGE, payload))
    wait_all(pair, lambda: bob.inbox)
    assert bob.payloads[alice.name, sent.message.message_id].startswith(payload)
    assert bob.inbox[0].type == 77


@pytest.mark.parametrize("content", ["", "\n", "a" * 1000, "\u00e9" * 2000, "\U0001F600 \u202e \ufeff"])
def test_text_arrives_as_it_was(pair, content):
    alice, bob = pair
    sent = alice.send(bob.name, content)
    wait_all(pair, lambda: settled(sent))
    assert bob.texts() == [content]


def test_by_tcp_alone(clients, names):
    alice, bob = names("alice", "bob")
    a, b = clients.login(alice), clients.login(bob)  # no path is ever proven
    sent = [a.send(bob, f"{number}") for number in range(100)]
    wait_all([a, b], lambda: settled(*sent))
    assert b.texts() == [f"{number}" for number in range(100)]
    assert set(b.via.values()) == {"tcp"}
    assert all(ACCEPTED in each.states for each in sent), "by TCP the server says ACCEPTED by outcome"


def test_one_by_udp_the_other_by_tcp(clients, names):
    alice, bob = names("alice", "bob")
    a, b = clients.online(alice), clients.login(bob)
    there, back = a.send(bob, "there"), b.send(alice, "back")
    wait_all([a, b], lambda: settled(there, back))
    assert (a.texts(), b.texts()) == (["back"], ["there"])
    assert set(b.via.values()) == {"tcp"}


def test_chacha20_poly1305(clients, names):
    alice, bob = names("alice", "bob")
    a, b = clients.online(alice, ciphers=[2]), clients.online(bob, ciphers=[1, 2])
    assert (a.session.cipher, b.session.cipher) == (2, 1)
    there, back = a.send(bob, "there"), b.send(alice, "back")
    wait_all([a, b], lambda: settled(there, back))
    assert set(a.via.values()) == set(b.via.values()) == {"udp"}


def test_a_long_message_goes_by_tcp_up_to_the_limit(pair):
    alice, bob = pair
    sent = alice.compose(bob.name, "")
    room = alice.session.maximum_packet_bytes - 96 - wire.HEADER_BYTES
    sent.message.floor = 1
    fits = room - len(sent.message.SerializeToString()) - 4
    sent.message.content = "x" * fits
    assert len(wire.packet(wire.MESSAGE, sent.message).encoded()) == alice.session.maximum_packet_bytes - 96
    alice.transmit([sent])
    wait_all(pair, lambda: settled(sent))
    assert sent.state() == DELIVERED and len(bob.texts()[0]) == fits
    # One that does not leave room for what the server appends is refused; the session lives.
    over = alice.send(bob.name, "x" * (fits + 96))
    wait_all(pair, lambda: settled(over) or alice.errors)
    assert over.code == ERROR_TOO_LARGE if settled(over) else alice.errors[0].code == ERROR_TOO_LARGE
    after = alice.send(bob.name, "after")
    wait_all(pair, lambda: settled(after))


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_nothing_is_lost_where_a_third_of_the_datagrams_is(pair, seed):
    alice, bob = pair
    dice = random.Random(seed)
    lost = [0, 0]

    def loses(index):
        def decide(_):
            gone = dice.random() < 0.33
            lost[index] += gone
            return gone
        return decide

    for each in pair:
        each.loses_outgoing, each.loses_incoming = loses(0), loses(1)
    sent = [alice.compose(bob.name, f"{number:03}") for number in range(200)]
    for start in range(0, len(sent), 4):
        alice.transmit(sent[start : start + 4])
        wait_all(pair, lambda: True)
        alice.pump(), bob.pump()
    wait_all(pair, lambda: settled(*sent), timeout=60)
    assert sorted(bob.texts()) == [f"{number:03}" for number in range(200)]
    assert lost[0] > 10 and lost[1] > 0, lost


def test_the_server_goes_over_to_tcp_when_a_recipient_hears_no_datagram(pair):
    alice, bob = pair
    bob.loses_incoming = lambda number: True
    sent = alice.send(bob.name, "hello")
    wait_all(pair, lambda: settled(sent))
    assert (bob.texts(), set(bob.via.values())) == (["hello"], {"tcp"})


def test_a_copy_is_receipted_again_and_shown_once(pair):
    alice, bob = pair
    bob.confirms = alice.retransmits = False
    sent = alice.send(bob.name, "once")
    wait_all(pair, lambda: sent.states == [ACCEPTED] and bob.inbox)
    for by in ("udp", "tcp", "udp"):
        alice.transmit([sent], by=by)
    wait_all(pair, lambda: len(sent.states) >= 4)
    assert set(sent.states) == {ACCEPTED}
    bob.confirms = True
    bob.send_outcome(DELIVERED, bob.inbox[0])
    wait_all(pair, lambda: settled(sent))
    # After DELIVERED as well: whoever answers, the answer is a good one, and bob shows nothing new.
    count = len(sent.states)
    alice.transmit([sent], by="tcp")
    wait_all(pair, lambda: DELIVERED in sent.states[count:])
    assert bob.texts() == ["once"]


def test_delivered_is_said_when_the_recipient_says_it(pair):
    alice, bob = pair
    bob.confirms = False
    sent = alice.send(bob.name, "hello")
    wait_all(pair, lambda: bob.inbox and sent.state() == ACCEPTED)
    for each in pair:
        each.settle(0.3)
    assert set(sent.states) == {ACCEPTED}
    bob.send_outcome(DELIVERED, bob.inbox[0])
    wait_all(pair, lambda: sent.state() == DELIVERED)
    outcome = alice.outcomes[-1]
    assert (outcome.user, outcome.device) == (bob.name, 0)


def test_nobody_else_can_say_delivered(pair, clients, names):
    alice, bob = pair
    mallory = clients.online(*names("mallory"))
    bob.confirms = False
    sent = alice.send(bob.name, "hello")
    wait_all(pair, lambda: bob.inbox and sent.state() == ACCEPTED)
    mallory.send_outcome(DELIVERED, bob.inbox[0])
    mallory.request(wire.PING, Ping())  # the server has read what stood before it
    alice.settle(0.3)
    assert set(sent.states) == {ACCEPTED}
    bob.send_outcome(DELIVERED, bob.inbox[0])
    wait_all(pair, lambda: sent.state() == DELIVERED)


@pytest.mark.parametrize("orders", [[1, 1 << 62], [0, 1], [5, 0], [1, 1, 1], [(1 << 64) - 1, 9], [7] * 20_000])
def test_orders_that_make_no_sense(pair, orders):
    alice, bob = pair
    bob.confirms = False
    sent = alice.send(bob.name, "hello")
    wait_all(pair, lambda: bob.inbox)
    nonsense = Outcome(state=DELIVERED, user=alice.name, device=alice.device, orders=orders)
    bob.send_packet(wire.packet(wire.RECEIPT, Receipt(outcomes=[nonsense])))
    bob.request(wire.PING, Ping())
    bob.send_outcome(DELIVERED, bob.inbox[0])
    wait_all(pair, lambda: settled(sent))


def test_ranges_cannot_hold_the_server_up(own_server, names):
    """Thousands of wide ranges in an outcome, over a conversation whose pending orders lie far apart."""
    alice, bob, witness = names("alice", "bob", "witness")
    with Clients(own_server) as clients:
        a, b, w = clients.online(alice), clients.online(bob), clients.login(witness)
        b.confirms = False
        a.send(bob, "first")
        a.orders[bob] = 16_000
        a.send(bob, "far above")
        wait_all([a, b], lambda: len(b.inbox) == 2)
        # Over one another, which is refused; and one after the other, between the two that are pending and far above.
        apart = [number for place in range(16_000) for number in (2 + 16_000 * place, 15_990)]
        for orders, times in (([2, 15_990] * 16_000, 3), (apart, 2)):
            wide = Outcome(state=DELIVERED, user=alice, device=a.device, orders=orders)
            packet = wire.packet(wire.RECEIPT, Receipt(outcomes=[wide] * times)).encoded()
            for _ in range(50):
                b.send_bytes(packet)
                b.wait(lambda: not b.unsent, 20)
        # Word by word that would be work for minutes, in which nobody is answered.
        w.request(wire.PING, Ping(), timeout=20)


def test_later_when_nobody_is_there_and_delivered_when_they_come(clients_without_inboxes, names):
    alice, bob = names("alice", "bob")
    a = clients_without_inboxes.online(alice)
    by_udp, by_tcp = a.send(bob, "first"), a.send(bob, "second", by="tcp")
    wait_all([a], lambda: LATER in by_udp.states and LATER in by_tcp.states)
    assert by_udp.code == by_tcp.code == ERROR_NOT_ONLINE
    assert ACCEPTED not in by_udp.states + by_tcp.states
    later = [each for each in a.outcomes if each.state == LATER]
    assert all(0 < each.retry_after_ms <= 5000 for each in later)
    b = clients_without_inboxes.online(bob)
    wait_all([a, b], lambda: settled(by_udp, by_tcp))
    assert sorted(b.texts()) == ["first", "second"]


def test_later_when_the_recipient_leaves_before_taking_it(pair, clients):
    alice, bob = pair
    bob.confirms = False
    sent = alice.send(bob.name, "hello")
    wait_all(pair, lambda: bob.inbox and sent.state() == ACCEPTED)
    bob.close()
    wait_all([alice], lambda: LATER in sent.states)
    back = clients.online(bob.name)
    wait_all([alice, back], lambda: settled(sent))
    assert back.texts() == ["hello"]


def test_a_recipient_without_room(clients_without_inboxes, names):
    alice, bob = names("alice", "bob")
    a, b = clients_without_inboxes.online(alice), clients_without_inboxes.online(bob, room=(5, 1 << 20))
    b.confirms = False
    sent = [a.send(bob, f"{number}") for number in range(10)]
    wait_all([a, b], lambda: len(b.inbox) == 5 and any(LATER in each.states for each in sent))
    a.settle(0.5), b.settle(0.2)
    assert len(b.inbox) == 5
    assert {each.code for each in sent if LATER in each.states} == {ERROR_NO_ROOM}
    b.confirms = True
    for each in b.inbox[:5]:
        b.send_outcome(DELIVERED, each)
    wait_all([a, b], lambda: settled(*sent))
    assert sorted(b.texts()) == [f"{number}" for number in range(10)]


def test_no_room_named_means_the_servers_own(clients, names):
    alice, bob = names("alice", "bob")
    a, b = clients.online(alice), clients.online(bob, room=(0, 0))
    sent = a.send(bob, "hello")
    wait_all([a, b], lambda: settled(sent))
    assert sent.states[-1] == DELIVERED and LATER not in sent.states


def test_no_receipt_says_accepted_of_what_was_refused(clients_without_inboxes, names):
    """More refused datagrams than a receipt has places for, and the receipts between are lost."""
    alice, nobody = names("alice", "nobody")
    a = clients_without_inboxes.online(alice)
    a.retransmits = False
    a.settle(0.25)
    a.loses_incoming = lambda number: True
    sent = [a.send(nobody, f"{number}") for number in range(300)]
    wait_all([a], lambda: all(LATER in each.states for each in sent))
    a.settle(0.3)
    a.loses_incoming = lambda number: False
    number = a.send_datagram(wire.packet(wire.PING, Ping(), flags=wire.WANTED).encoded())
    a.wait(lambda: number in a.receipted)
    assert not [each.states for each in sent if ACCEPTED in each.states]


def test_room_may_grow(clients_without_inboxes, names):
    alice, bob = names("alice", "bob")
    a, b = clients_without_inboxes.online(alice), clients_without_inboxes.online(bob, room=(1, 1 << 20))
    b.confirms = False
    sent = [a.send(bob, f"{number}") for number in range(4)]
    wait_all([a, b], lambda: b.inbox and any(LATER in each.states for each in sent))
    b.send_packet(wire.packet(wire.RECEIPT, Receipt(room_messages=4, room_bytes=1 << 20)))
    wait_all([a, b], lambda: len(b.inbox) == 4)


def test_send_only(clients, names, server):
    alice, bob = names("alice", "bob")
    listening = clients.online(alice)
    b = clients.online(bob)
    sender = clients.online(alice, send_only=True)
    sent = sender.send(bob, "by script")
    wait_all([sender, b, listening], lambda: settled(sent))
    assert b.texts(alice) == ["by script"]
    # What bob answers goes to the session that receives.
    answer = b.send(alice, "answer")
    wait_all([sender, b, listening], lambda: settled(answer))
    assert (listening.texts(), sender.texts()) == (["answer"], [])
    assert listening.ended is None and not listening.closed
    assert sender.device != listening.device


def test_a_send_only_session_receives_nothing(clients_without_inboxes, names):
    alice, bob = names("alice", "bob")
    a, b = clients_without_inboxes.online(alice, send_only=True), clients_without_inboxes.online(bob)
    sent = b.send(alice, "hello")
    wait_all([a, b], lambda: LATER in sent.states)
    assert sent.code == ERROR_NOT_ONLINE and not a.inbox


def test_a_second_login_ends_the_first(clients, names):
    (alice,) = names("alice")
    first = clients.online(alice)
    second = clients.online(alice)
    first.wait(lambda: first.closed)
    assert (first.ended.code, first.ended.retry_after_ms) == (ERROR_REPLACED, 0)
    assert second.request(wire.PING, Ping(token=3)).token == 3
    # Datagrams of the first are unknown now.
    first.datagrams_in.clear()
    first.send_datagram(wire.packet(wire.PING, Ping()).encoded())
    first.settle(0.3)
    assert not first.datagrams_in


def test_messages_to_oneself(clients, names):
    (alice,) = names("alice")
    a = clients.online(alice)
    sent = a.send(alice, "note")
    wait_all([a], lambda: settled(sent))
    assert a.texts() == ["note"]


def test_ping_on_both_channels(pair):
    alice, _ = pair
    assert alice.request(wire.PING, Ping(token=0x1122334455667788)).token == 0x1122334455667788
    alice.send_datagram(wire.packet(wire.PING, Ping(token=9), sequence=77).encoded())
    alice.wait(lambda: 9 in alice.pongs)


def test_a_receipt_wanted_now_comes_at_once_and_by_udp(pair):
    alice, _ = pair
    times = []
    end = time.monotonic() + PATIENCE
    # One that waited for its delay would take twice as long, each of them; on a busy machine some take long anyway.
    while sum(each < 0.05 for each in times) <= 10:
        assert time.monotonic() < end, times
        began = time.monotonic()
        number = alice.send_datagram(wire.packet(wire.PING, Ping(), flags=wire.WANTED).encoded())
        alice.wait(lambda: number in alice.receipted)
        times.append(time.monotonic() - began)


def test_without_the_flag_the_receipt_comes_by_itself(pair):
    """Before the next keep-alive would bring it."""
    alice, _ = pair
    alice.settle(0.3)
    number = alice.send_datagram(wire.packet(wire.PING, Ping()).encoded())
    alice.wait(lambda: number in alice.receipted, 20)


def test_a_gap_is_reported(pair):
    alice, _ = pair
    alice.settle(0.3)
    missing, alice.number = alice.number, alice.number + 1
    alice.sent_datagrams[missing] = (time.monotonic(), [])
    number = alice.send_datagram(wire.packet(wire.PING, Ping()).encoded())
    alice.wait(lambda: number in alice.receipted)
    assert missing not in alice.receipted


def test_a_conversation_begins_at_its_floor(clients, names):
    """A new recipient is not told of orders that are final already."""
    alice, bob = names("alice", "bob")
    a, b = clients.online(alice), clients.online(bob)
    sent = [a.send(bob, f"{number}") for number in range(5)]
    wait_all([a, b], lambda: settled(*sent))
    last = a.send(bob, "after")
    wait_all([a, b], lambda: settled(last))
    assert (b.inbox[-1].order, b.inbox[-1].floor) == (6, 6)


def test_audio_by_reference(pair):
    alice, bob = pair
    attachment = Attachment(url="https://media.example.org/a.opus", mime="audio/ogg", duration_ms=61_500)
    sent = alice.send(bob.name, type=AUDIO, attachment=attachment)
    wait_all(pair, lambda: settled(sent))
    assert (bob.inbox[0].type, bob.inbox[0].attachment) == (AUDIO, attachment)


def test_logout(clients, names, server):
    (alice,) = names("alice")
    a = clients.online(alice)
    a.logout()
    assert a.ended is None


def test_refused_messages(pair):
    """Each is refused with its code, and the session lives."""
    alice, bob = pair
    window = alice.session.order_window
    device = alice.device
    cases = [
        (dict(from_user="mallory"), ERROR_FIELD_FORBIDDEN),
        (dict(from_user=alice.name), ERROR_FIELD_FORBIDDEN),
        (dict(server_time=5), ERROR_FIELD_FORBIDDEN),
        (dict(message_id=(device + 1) << 40 | 99), ERROR_DEVICE_MISMATCH),
        (dict(message_id=99), ERROR_DEVICE_MISMATCH),
        (dict(order=1 + window, floor=1), ERROR_OUTSIDE_WINDOW),
        (dict(order=0, floor=0), ERROR_MALFORMED),
        (dict(order=3, floor=0), ERROR_MALFORMED),
        (dict(order=3, floor=4), ERROR_MALFORMED),
        (dict(to_user=""), ERROR_NAME_INVALID),
        (dict(to_user="a b"), ERROR_NAME_INVALID),
        (dict(to_user="b" * 65), ERROR_NAME_INVALID),
        (dict(to_user="x}:{u"), ERROR_NAME_INVALID),
        (dict(to_group="readers"), ERROR_MALFORMED),
    ]
    for by in ("tcp", "udp"):
        for number, (wrong, code) in enumerate(cases):
            if by == "udp" and (wrong.get("order") == 0 or "to_user" in wrong):
                continue  # an outcome cannot name it, and datagrams get no error responses
            order = wrong.get("order", 10_000 + number)
            message = dict(message_id=device << 40 | 10_000 + number, content="forged", to_user=bob.name, type=1,
                           order=order, floor=order)
            packet = wire.packet(wire.MESSAGE, Message(**(message | wrong)), sequence=500 + number)
            alice.errors.clear(), alice.outcomes.clear()
            if by == "tcp":
                alice.send_packet(packet)
            else:
                alice.send_datagram(packet.encoded())
            told = alice.wait(lambda: alice.errors or [each for each in alice.outcomes if each.state == REJECTED])
            assert [each.code for each in told] == [code], (by, wrong)
    good = alice.send(bob.name, "good")
    wait_all(pair, lambda: settled(good))
    assert bob.texts() == ["good"]


def test_a_recipient_that_answers_for_another_device(pair):
    """An outcome for a device that never wrote changes nothing."""
    alice, bob = pair
    bob.confirms = False
    sent = alice.send(bob.name, "hello")
    wait_all(pair, lambda: bob.inbox and sent.state() == ACCEPTED)
    other = Outcome(state=DELIVERED, user=alice.name, device=alice.device + 1, orders=[1, 1])
    bob.send_packet(wire.packet(wire.RECEIPT, Receipt(outcomes=[other])))
    bob.request(wire.PING, Ping())
    alice.settle(0.3)
    assert set(sent.states) == {ACCEPTED}
