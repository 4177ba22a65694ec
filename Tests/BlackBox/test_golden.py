"""The golden files against Google's Protobuf runtime and `cryptography`."""

import pytest

import golden
import simpwire as wire

MESSAGES = golden.read("messages.txt")
PACKETS = golden.read("packets.txt")
DATAGRAMS = golden.read("datagrams.txt")


def test_the_files_hold_what_the_values_give():
    for file, (_, values, _) in golden.files().items():
        assert golden.read(file) == values, file


@pytest.mark.parametrize("name", golden.MESSAGES)
def test_messages_parse_and_encode_to_the_same_bytes(name):
    value = golden.MESSAGES[name]
    parsed = type(value).FromString(MESSAGES[name])
    assert parsed == value
    assert parsed.SerializeToString() == MESSAGES[name]


@pytest.mark.parametrize("name", [name for name in golden.MESSAGES if name.endswith(".full")])
def test_full_means_every_field(name):
    value = golden.MESSAGES[name]
    assert {field.name for field, _ in value.ListFields()} == {field.name for field in value.DESCRIPTOR.fields}


def test_every_message_of_the_protobuf_files_is_there():
    from message_pb2 import DESCRIPTOR as messages
    from receipt_pb2 import DESCRIPTOR as receipts
    from session_pb2 import DESCRIPTOR as session

    defined = {name for file in (messages, receipts, session) for name in file.message_types_by_name}
    kinds = {"".join(part.capitalize() for part in name.split(".")[0].split("_")) for name in MESSAGES}
    assert kinds == defined
    assert all(f"{name.split('.')[0]}.full" in MESSAGES for name in MESSAGES)


def test_the_relayed_form_parses_to_the_same_values_but_encodes_otherwise():
    relayed = type(golden.FULL).FromString(MESSAGES["message.relayed"])
    assert relayed == golden.FULL
    assert relayed.SerializeToString() == MESSAGES["message.full"] != MESSAGES["message.relayed"]
    assert MESSAGES["message.relayed"].startswith(MESSAGES["message.sent"])


def test_the_last_occurrence_of_a_field_wins():
    forged = golden.HELLO.SerializeToString() + type(golden.FULL)(from_user="mallory").SerializeToString()
    assert type(golden.FULL).FromString(forged + golden.APPENDED.SerializeToString()).from_user == "alice"


def test_an_unknown_field_is_skipped():
    parsed = type(golden.HELLO).FromString(MESSAGES["message.unknown_field"])
    assert (parsed.message_id, parsed.content, parsed.order) == (golden.MESSAGE_ID, "hello", 1)


@pytest.mark.parametrize("name", golden.PACKETS)
def test_packets_survive_the_framer(name):
    expected = golden.PACKETS[name]
    assert wire.Framer().feed(PACKETS[name]) == [expected]
    assert expected.decoded().SerializeToString() == expected.payload or name == "message_relayed"


@pytest.mark.parametrize("cipher, prefix", [(wire.AES_128_GCM, "aes"), (wire.CHACHA20_POLY1305, "chacha")])
@pytest.mark.parametrize("way", ["c2s", "s2c"])
def test_datagrams_open(cipher, prefix, way):
    direction = wire.Direction(DATAGRAMS["secret"], cipher, way)
    sealed = DATAGRAMS[f"{prefix}.{way}.datagram"]
    number, plain = direction.open(sealed)
    assert (number, plain) == (0x0102030405060708, DATAGRAMS[f"{prefix}.{way}.plain"])
    assert [each.command for each in wire.packets_of(plain)] == [wire.PING, wire.MESSAGE]
    for bit in range(len(sealed) * 8):
        damaged = bytearray(sealed)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(wire.InvalidTag):
            direction.open(bytes(damaged))


def test_the_path_proof_fills_its_datagrams():
    assert len(DATAGRAMS["proof.1.datagram"]) == len(DATAGRAMS["proof.2.datagram"]) == wire.DATAGRAM_BYTES
    answer, challenge = wire.packets_of(DATAGRAMS["proof.2.plain"])
    assert answer.decoded().data == wire.packets_of(DATAGRAMS["proof.1.plain"])[0].decoded().data
    assert challenge.decoded().data == wire.packets_of(DATAGRAMS["proof.3.plain"])[0].decoded().data
