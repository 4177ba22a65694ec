"""Somebody without a login does what one core can, while people chat: nothing of theirs is lost or doubled, strangers
hear nothing, and the server's memory stays. What it does to latency `Tests/Network/run --floods` shows."""

import pytest

import floods
from field import Field, FieldServer, Load

# Connections without a login are 512 at most before their handshake, and as many after it, with 15 to 20 KiB each.
GROWTH_KIB = 48 * 1024


@pytest.fixture(scope="module")
def field():
    with Field() as field:
        yield field


@pytest.fixture(scope="module")
def server(field):
    with FieldServer(field) as server:
        # Code, buffers and the first sessions are in memory before anything is compared.
        with Load(field, server, seconds=1) as load:
            assert load.finish()["verdict"] == "good"
        yield server
        assert server.process.poll() is None, server.text()[-4000:]


@pytest.mark.parametrize("mode", floods.MODES)
def test_people_go_on_under_a_flood(field, server, tmp_path, mode):
    result = floods.run(field, server, mode, tmp_path, rate=100, seconds=1.5)
    people, flood = result.people, result.flood
    assert (people["status"], people["verdict"]) == (0, "good"), people
    assert people["sent"] == people["delivered"] > 0 and people["duplicated"] == people["lost"] == 0
    assert flood["sent"] > 0 or flood["opened"] > 0
    if flood["opened"] == 0:  # whoever speaks TCP is where it says
        assert flood["received_bytes"] == 0, "strangers were answered"
    assert result.most_kib - result.before_kib < GROWTH_KIB, (result.before_kib, result.most_kib)
    assert server.process.poll() is None
