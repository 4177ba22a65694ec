"""One flood while people chat, measured; as a program a table of all of them."""

import dataclasses
import pathlib
import struct
import subprocess
import sys
import tempfile

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "BlackBox"))

import simptls
from capture import packets
from field import PEOPLE, SERVER_FOR_PEOPLE, Field, FieldServer, Flood, Load, Residence
from link import clean_up_on_signals
from people import PORT

MODES = ("junk", "empty", "headers", "tags", "replay", "idle", "hello", "slow")


@dataclasses.dataclass
class Result:
    people: dict
    flood: dict
    before_kib: int
    most_kib: int


def run(field, server, mode, directory, *, rate, seconds, pairs=4):
    recording = None
    with Load(field, server, pairs=pairs, rate=rate, seconds=seconds + (1 if mode in ("tags", "replay") else 0)) as load:
        if mode in ("hello", "slow"):
            recording = pathlib.Path(directory) / f"{mode}.recording"
            write(recording, [simptls.hello()])
        if mode in ("tags", "replay"):
            # What somebody recorded on the people's cable, of sessions that go on.
            recording = record(field, pathlib.Path(directory) / f"{mode}.recording")
        before = server.resident_kib()
        with Residence(server) as residence, Flood(field, mode, recording=recording) as flood:
            people = load.finish()
            flood.stop()
    return Result(people, flood.report, before, max(residence.most, before))


def record(field, path, count=100):
    """Datagrams that people sent."""
    capture = path.with_suffix(".pcap")
    tap = field.popen(
        field.people,
        ["tcpdump", "-i", "p0", "-U", "--immediate-mode", "-Z", "root", "-c", count, "-w", capture,
         f"udp and src {PEOPLE} and dst port {PORT + 1}"],
        stderr=subprocess.DEVNULL)
    assert tap.wait(timeout=60) == 0
    datagrams = [payload for protocol, *_, payload in packets(capture) if protocol == "udp"]
    assert len(datagrams) == count and all(each[0] == 1 for each in datagrams)
    write(path, datagrams)
    return path


def write(path, packets):
    """As `flood` reads them."""
    path.write_bytes(b"".join(struct.pack("!H", len(each)) + each for each in packets))


def table(rate=400, seconds=8):
    """Latencies of the people without and with each flood."""
    print(f"{'flood':10} {'p50 ms':>8} {'p99 ms':>8} {'x calm':>7} {'lost':>5} {'doubled':>8} {'by TCP':>7} "
          f"{'flood/s':>10} {'replies':>8} {'RSS MiB':>12}", flush=True)
    with Field() as field, FieldServer(field) as server, tempfile.TemporaryDirectory(prefix="simp-flood-") as directory:
        with Load(field, server, rate=rate, seconds=2) as load:
            load.finish()
        calm = None
        for mode in ("calm", *MODES):
            if mode == "calm":
                before = server.resident_kib()
                with Residence(server) as residence, Load(field, server, rate=rate, seconds=seconds) as load:
                    result = Result(load.finish(), {}, before, residence.most)
            else:
                result = run(field, server, mode, directory, rate=rate, seconds=seconds)
            people, latency = result.people, result.people["latency_ms"]
            calm = calm or latency["p99"]
            work = result.flood.get("opened") or result.flood.get("sent", 0)
            print(f"{mode:10} {latency['p50']:8.2f} {latency['p99']:8.2f} {latency['p99'] / calm:7.1f} "
                  f"{people['lost']:5} {people['duplicated']:8} {people['by_tcp']:7} {work / (seconds + 1.5):10.0f} "
                  f"{result.flood.get('received_bytes', 0):8} "
                  f"{result.before_kib / 1024:5.0f}-{result.most_kib / 1024:.0f}", flush=True)


if __name__ == "__main__":
    clean_up_on_signals()
    table()
