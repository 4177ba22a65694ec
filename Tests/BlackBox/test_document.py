"""The examples of Protocols/WIRE.md are the golden bytes."""

import pathlib
import re

import pytest

import golden

DOCUMENT = pathlib.Path(__file__).resolve().parents[2] / "Protocols" / "WIRE.md"
BLOCK = re.compile(r"^```hex (\w+\.txt) ([\w.]+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
EXAMPLES = BLOCK.findall(DOCUMENT.read_text("utf-8"))


def test_the_document_has_an_example_for_every_packet_and_datagram():
    shown = {(file, name) for file, name, _ in EXAMPLES}
    assert {("packets.txt", name) for name in golden.read("packets.txt")} <= shown
    datagrams = [name for name in golden.read("datagrams.txt") if name.startswith(("secret", "aes.c2s"))]
    assert {("datagrams.txt", name) for name in datagrams} <= shown


@pytest.mark.parametrize("file, name, text", EXAMPLES, ids=[f"{file}:{name}" for file, name, _ in EXAMPLES])
def test_the_examples_of_the_document_are_the_golden_bytes(file, name, text):
    # A line is hex pairs apart by one space, then two spaces and a remark.
    pairs = [re.match(r"(?:[0-9a-f]{2}(?: |$))*", line).group() for line in text.splitlines()]
    assert bytes.fromhex("".join(pairs)) == golden.read(file)[name]


# What a row of section 14 says, and the name that has it in the source.
CONSTANTS = {
    "packet header": ("headerBytes", "16 bytes"),
    "packet before login": ("maximumPacketBytesBeforeLogin", "4096 bytes"),
    "packet after login": ("maximumPacketBytes", "262144 bytes"),
    "what the server adds to a message": ("relayReserveBytes", "96 bytes"),
    "token": ("maximumTokenBytes", "3072 bytes"),
    "datagram": ("maximumDatagramBytes", "1200 bytes"),
    "datagrams of a key phase": ("keyPhaseDatagrams", "65536"),
    "datagrams under one key": ("maximumSealedDatagrams", "8388608 at most"),
    "bad tags in a session": ("maximumForgedDatagrams", "68719476736 at most"),
    "amplification limit": ("amplificationFactor", "3 times"),
    "runs in a receipt": ("maximumReceiptRanges", "32"),
    "`answered` in a receipt": ("maximumAnsweredDatagrams", "64"),
    "outcomes in a receipt": ("maximumOutcomes", "512"),
    "congestion window at first": ("initialCongestionWindow", "12000 bytes"),
    "congestion window at most": ("maximumCongestionWindow", "4194304 bytes"),
    "order window": ("orderWindow", "16384"),
    "user name": ("maximumUserNameBytes", "64 bytes"),
}


@pytest.mark.parametrize("row", CONSTANTS)
def test_the_constants_are_those_of_the_source(row):
    """The one place where this suite looks at the implementation: a constant changes in both or in neither."""
    name, told = CONSTANTS[row]
    source = (DOCUMENT.parents[1] / "Sources" / "SimpCore" / "Wire" / "WireLimits.swift").read_text("utf-8")
    value = re.search(rf"static let {name}(?:: \w+)? = ([0-9_]+)$", source, re.MULTILINE).group(1).replace("_", "")
    assert value == told.split()[0]
    assert f"| {row} | {told} |" in DOCUMENT.read_text("utf-8")
