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
