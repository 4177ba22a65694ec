"""UDP goes away and comes back, addresses change under a conversation: all lines arrive, once and in order (Talk.finish
looks at that), in the one session that was. How long it took is printed; `Tests/Network/run --shown` takes longer over it."""

import pytest

import cases
import shown

TALKS = {
    "udp away": lambda: shown.udp_away(3),
    "rebound sender": lambda: shown.rebinding("sender", every_ms=500, count=5),
    "rebound listener": lambda: shown.rebinding("listener", every_ms=500, count=5),
    "moved sender": lambda: shown.rebinding("sender", every_ms=500, count=5, addresses=True),
    "moved listener": lambda: shown.rebinding("listener", every_ms=500, count=5, addresses=True),
}


@pytest.fixture(scope="module")
def talks():
    return cases.beside_one_another(TALKS)


@pytest.mark.parametrize("name", TALKS)
def test_a_conversation_goes_on(talks, name):
    result = talks[name].result(timeout=300)
    print(f"{name}: {result}")
    assert result["logins"] == 2, result
    if name == "udp away":
        assert result["dropped"] > 0, "no datagram was dropped: the test tested nothing"
    else:
        assert result["rebound"] == 5 and result["lines"] > 50, result
        if name.endswith("listener"):
            assert result["by_udp"] > 0, result
