"""The table of latencies under loss: 32 pairs over a link of 10 ms each way, MQTT QoS 1 in the same run where it is there."""

import argparse
import json
import pathlib
import shutil
import subprocess
import tempfile

from link import BUILD, HERE, SERVER, Link, clean_up_on_signals
from people import BIN, PORT, Server

PAIRS, BYTES, DELAY_MS = 32, 128, 10
# Messages a second in all, share of the packets lost each way, how many are lost in a row, tail redundancy.
ROWS = [(320, 0, 1, "off"), (320, 0.01, 1, "off"), (320, 0.05, 1, "off"), (320, 0.10, 1, "off"), (3200, 0.05, 1, "off"),
        (320, 0.30, 3, "off"),
        (320, 0, 1, "idle"), (320, 0.01, 1, "idle"), (320, 0.05, 1, "idle"), (320, 0.10, 1, "idle"),
        (3200, 0.05, 1, "always"), (320, 0.30, 3, "idle")]
MQTT_PORT = 1883


def simp(row, seconds, seed):
    """What `simp-bench pair` reports, with what the server counted meanwhile."""
    rate, loss, burst, redundancy = row
    with Link(loss=loss, burst=burst, delay_ms=DELAY_MS, seed=seed) as link, \
            Server(link, "--redundancy", redundancy, tls=True) as server:
        report = subprocess.run(
            ["ip", "netns", "exec", link.clients, BIN / "simp-bench", "pair", "--server", f"{SERVER}:{PORT}",
             "--key", server.state / "s" / "signing.key", "--pin", server.trust["SIMP_PIN"], "--pairs", str(PAIRS),
             "--redundancy", redundancy, "--rate", str(rate), "-s", str(BYTES), "-d", f"{seconds}s", "--warmup", "2s", "--json"],
            capture_output=True, text=True, timeout=seconds + 180)
        assert report.returncode in (0, 6), report.stderr
        counters = subprocess.run(
            ["ip", "netns", "exec", link.server, BIN / "simp", "admin", "counters", "--json",
             "--server", f"{SERVER}:{PORT}", "--key", server.state / "s" / "signing.key",
             "--pin", server.trust["SIMP_PIN"]],
            capture_output=True, text=True, check=True, timeout=60)
    return json.loads(report.stdout), json.loads(counters.stdout)


def mqtt_binary():
    """None where its library is not installed."""
    BUILD.mkdir(parents=True, exist_ok=True)
    binary, source = BUILD / "mqtt_latency", HERE / "mqtt_latency.c"
    if not binary.exists() or binary.stat().st_mtime < source.stat().st_mtime:
        built = subprocess.run(
            ["gcc", "-O2", "-o", str(binary), str(source), "-lmosquitto", "-lpthread"], capture_output=True)
        if built.returncode != 0:
            return None
    return binary if shutil.which("mosquitto", path="/usr/sbin:/usr/bin") else None


def mqtt(row, seconds, seed):
    binary = mqtt_binary()
    if binary is None:
        return None
    rate, loss, burst, redundancy = row
    if redundancy != "off":
        return None  # the same row again
    with tempfile.TemporaryDirectory(prefix="simp-mqtt-") as directory:
        settings = pathlib.Path(directory) / "mosquitto.conf"
        settings.write_text(
            f"listener {MQTT_PORT} {SERVER}\nallow_anonymous true\nmax_inflight_messages 1000\n"
            "max_queued_messages 0\nset_tcp_nodelay true\nlog_dest none\n")
        with Link(loss=loss, burst=burst, delay_ms=DELAY_MS, seed=seed) as link:
            broker = link.popen(link.server, ["/usr/sbin/mosquitto", "-c", settings], stderr=subprocess.DEVNULL)
            try:
                report = subprocess.run(
                    ["ip", "netns", "exec", link.clients, binary, SERVER, str(MQTT_PORT), str(PAIRS), str(rate),
                     str(seconds), "1"], capture_output=True, text=True, timeout=seconds + 180)
            finally:
                broker.terminate()
                broker.wait(timeout=10)
    assert report.returncode == 0, report.stderr
    return json.loads(report.stdout)


def times(report):
    if report is None:
        return f"{'-':>26}"
    latency = report["latency_ms"]
    return "".join(f"{latency[name]:>8.1f} " for name in ("p50", "p99", "p999"))


def ratio(report, counters):
    """Bytes of message packets sent over those needed, both hops; and receipts over them."""
    needed = report["message_bytes_needed"] + counters["simp_message_bytes_needed_total"]
    sent = report["message_bytes"] + counters["simp_message_bytes_sent_total"]
    receipts = report["receipt_bytes"] + counters["simp_receipt_bytes_sent_total"]
    return sent / needed, receipts / needed


def table(seconds, seed, rows):
    print(f"{PAIRS} pairs, {BYTES} bytes, {DELAY_MS} ms each way, {seconds} s a row, seed {seed}; latency in ms from the "
          "time a message was due")
    print(f"{'msg/s':>6} {'loss':>5} {'twice':>6} {'SIMP p50':>8} {'p99':>8} {'p99.9':>8} {'lost':>5} {'dbl':>4} {'ooo':>4} {'by TCP':>7} "
          f"{'sent/needed':>11} {'receipts':>8} {'copies':>6} {'MQTT p50':>9} {'p99':>8} {'p99.9':>8}", flush=True)
    for row in rows:
        rate, loss, burst, redundancy = row
        report, counters = simp(row, seconds, seed)
        sent, receipts = ratio(report, counters)
        other = mqtt(row, seconds, seed)
        name = f"{loss * 100:.0f}%" + (f"x{burst}" if burst > 1 else "")
        copies = report["redundant"] + counters["simp_messages_redundant_total"]
        print(f"{rate:6} {name:>5} {redundancy:>6} {times(report)}{report['lost']:5} {report['duplicated']:4} "
              f"{report['out_of_order']:4} {report['by_tcp']:7} {sent:11.3f} {receipts:8.3f} {copies:6} {times(other)}", flush=True)


if __name__ == "__main__":
    clean_up_on_signals()
    reader = argparse.ArgumentParser(prog="run --latency", description=__doc__)
    reader.add_argument("--seconds", type=int, default=30, help="of each row (30)")
    reader.add_argument("--seed", type=int, default=1, help="of the losses (1)")
    reader.add_argument("--row", type=int, action="append", help=f"only this one, 1 to {len(ROWS)}; may be repeated")
    given = reader.parse_args()
    table(given.seconds, given.seed, [ROWS[number - 1] for number in given.row] if given.row else ROWS)
