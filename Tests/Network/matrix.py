"""What each impairment does to people who talk: real server, real clients, one line each. `Tests/Network/run --matrix`."""

import cases
from cases import Case
from link import clean_up_on_signals

# 32 messages a second of each of 8 pairs, 20 ms there and back unless the row says otherwise.
LOAD = dict(pairs=8, rate=256, seconds=8)


def row(name, udp=True, **link):
    return Case(name, link, udp=udp, **LOAD)


ROWS = [
    row("clean"),
    row("clean, TCP only", udp=False),
    row("delay 0 ms", delay_ms=0),
    row("delay 100 ms each way", delay_ms=100),
    row("delay 750 ms each way", delay_ms=750),
    *[row(f"loss {percent} %{f', bursts of {burst}' if burst > 1 else ''}", loss=percent / 100, burst=burst)
      for percent, burst in ((1, 1), (5, 1), (5, 3), (10, 1), (30, 1), (30, 3), (30, 10))],
    *[row(f"loss {percent} %, TCP only", udp=False, loss=percent / 100) for percent in (1, 5)],
    row("loss 5 % on the way up", loss_up=0.05),
    row("loss 5 % on the way down", loss_down=0.05),
    row("loss 5 % of UDP, TCP well", loss=0.05, plane=1),
    row("loss 5 % of TCP, UDP well", loss=0.05, plane=2),
    row("doubled 5 %", dup=0.05),
    row("doubled 50 %", dup=0.5),
    row("overtaking 5 %", reorder=0.05),
    row("overtaking 25 %", reorder=0.25),
    row("jitter of 8 ms", jitter_ms=8),
    row("broken bits 2 %", corrupt=0.02, plane=1),
    row("broken bits 30 %", corrupt=0.3, plane=1),
    row("10 Mbit/s, queue of 50", rate_mbit=10, queue=50),
    row("512 kbit/s, queue of 50", rate_mbit=0.512, queue=50),
    row("MTU 1280", mtu=1280),
    row("MTU hole at 1100 up", mtu_up=1100),
    row("MTU hole at 1100 down", mtu_down=1100),
    row("UDP blocked", loss=1, plane=1),
    row("nothing passes 1 s of each 4 s", on_ms=3000, off_ms=1000),
    row("new port every second", rebind_ms=1000, rebind_from_ms=1000, rebind_count=7),
    row("new address every second", rebind_ms=1000, rebind_from_ms=1000, rebind_count=7, rebind_addr=1),
    row("5 % loss, 25 % overtaking, 5 % doubled", loss=0.05, reorder=0.25, dup=0.05),
]


def table(rows=ROWS):
    print(f"{LOAD['pairs']} pairs, {LOAD['rate']} messages/s in all for {LOAD['seconds']} s, 10 ms each way unless told; "
          "latency from the time a message was due")
    print(f"{'impairment':40} {'sent':>5} {'arrived':>7} {'doubled':>7} {'order':>5} {'late':>4} {'by TCP':>6} "
          f"{'again':>6} {'p50 ms':>7} {'p99 ms':>7} {'p99.9':>7} {'dropped up':>10} {'down':>6}", flush=True)
    bad = 0
    for case in rows:
        try:
            result = cases.run(case)
        except AssertionError as error:
            print(f"{case.name:40} {str(error).splitlines()[0]}", flush=True)
            bad += 1
            continue
        people, latency, link = result.people, result.people["latency_ms"], result.link
        dropped = [sum(link[way][name] for name in ("dropped", "oversize", "stale")) for way in ("up", "down")]
        bad += people["verdict"] != "good"
        print(f"{case.name:40} {people['sent']:5} {people['delivered']:7} {people['duplicated']:7} "
              f"{people['out_of_order']:5} {people['late']:4} {people['by_tcp']:6} {people['retransmitted']:6} "
              f"{latency['p50']:7.1f} {latency['p99']:7.1f} {latency['p999']:7.1f} {dropped[0]:10} {dropped[1]:6}", flush=True)
    return bad


if __name__ == "__main__":
    clean_up_on_signals()
    raise SystemExit(table() > 0)
