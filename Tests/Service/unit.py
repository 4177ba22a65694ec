"""Reads Deploy/simp-server.service, and what systemd makes of it."""

import pathlib
import subprocess

UNIT = pathlib.Path(__file__).parents[2] / "Deploy" / "simp-server.service"


def values(name):
    """All values of a directive, in order."""
    pairs = (line.split("=", 1) for line in UNIT.read_text().splitlines() if "=" in line and line[0] != "#")
    return [value for key, value in pairs if key == name]


def _group(name, seen):
    """The system calls of a set such as @system-service."""
    if name in seen:
        return set()
    seen.add(name)
    text = subprocess.run(
        ["systemd-analyze", "syscall-filter", "--no-pager", name], check=True, capture_output=True, text=True,
        timeout=60).stdout
    words = [line.strip() for line in text.splitlines()[1:]]
    calls = set()
    for word in words:
        if word.startswith("@"):
            calls |= _group(word, seen)
        elif word and not word.startswith("#"):
            calls.add(word)
    return calls


def system_calls():
    """What the unit lets through: SystemCallFilter= lines in order, `~` takes away."""
    allowed = set()
    for value in values("SystemCallFilter"):
        taken_away = value.startswith("~")
        for name in value.lstrip("~").split():
            calls = _group(name, set()) if name.startswith("@") else {name}
            allowed = allowed - calls if taken_away else allowed | calls
    return allowed


def exposure():
    """The level that `systemd-analyze security` gives the unit: 0 is best, 10 worst."""
    text = subprocess.run(
        ["systemd-analyze", "security", "--no-pager", "--offline=true", str(UNIT)], capture_output=True, text=True,
        timeout=60).stdout
    line = next(line for line in text.splitlines() if "Overall exposure level" in line)
    return float(line.split(":")[1].split()[0])
