"""What fleets of several sizes take, beside what `auricle fleet plan` says of them before.

Each fleet runs in a process of its own, with both engines; synthetic speech, two words. The table has the forecast and
what the run took; below it stand the constants that these runs say, by the names of
`auricle_fleet/engine.py`, from the smallest and the largest fleet.

    python bench/fleet_growth.py [--devices 4,40,120] [--engines live,virtual] [--rounds 3] [--takes 5] [--json]
                                 [--participation 1] [--cohort N] [--config FILE] [--keep FILE] [--again FILE] [--write]

`--config` takes the settings of a file in place of these; `--cohort` invites so many devices to each round. Below
the table stands how time, processor and memory grow from the first fleet to the last, as exponents of their devices.
`--keep` writes what the runs took, and `--again` prints the table of such a file beside what is said today. `--write`
puts the constants into the file that forecasts read; run it on a machine with nothing else to do.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import msgspec

from auricle_fleet.commands.run_commands import read_settings
from auricle_fleet.engines import ENGINES
from auricle_fleet.forecast.crowd import crowd_of
from auricle_fleet.forecast.forecast import Forecast, forecast
from auricle_fleet.forecast.needs import Needed
from auricle_fleet.settings.fleet_settings import FleetSettings
from bench.fleet_constants import write_constants
from bench.fleet_growth_worker import AfterRound, Took

ROOT = Path(__file__).parents[1]


class Kept(msgspec.Struct, frozen=True):
    """A fleet that ran, as `--keep` writes it."""

    settings: FleetSettings
    took: Took


@dataclass(frozen=True)
class Fleet:
    """One fleet: what was said of it, and what it took."""

    settings: FleetSettings
    said: Forecast
    took: Took

    @property
    def first(self) -> AfterRound:
        """What it had taken after its first round."""
        return self.took.rounds[0]

    @property
    def last(self) -> AfterRound:
        """What it had taken after its last round."""
        return self.took.rounds[-1]

    @property
    def cpu(self) -> float:
        """Seconds of the processor that a round took, without the first."""
        return (self.last.cpu - self.first.cpu) / max(1, len(self.took.rounds) - 1)

    @property
    def disk(self) -> int:
        """Bytes on the disk at most."""
        return max(self.took.disk, *(row.disk for row in self.took.rounds))

    def least(self, grew: Callable[[AfterRound], float]) -> float:
        """By how much a figure grew in the round in which it grew least: nothing was said twice in that."""
        return min(grew(b) - grew(a) for a, b in itertools.pairwise(self.took.rounds))


def ran(settings: FleetSettings) -> Kept:
    """Run a fleet in a process of its own; its settings, and what it took."""
    told = msgspec.json.encode(settings).decode()
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, str(ROOT / "bench/fleet_growth_worker.py"), told, f"{folder}/run"]
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    if done.returncode:
        raise SystemExit(f"bench: {told} ended with {done.returncode}: {done.stderr[-1000:]}")
    return Kept(settings, msgspec.json.decode(done.stdout, type=Took))


def said_of(kept: Kept) -> Fleet:
    """A fleet that ran, and what is said of it."""
    return Fleet(kept.settings, forecast(kept.settings, Path(tempfile.gettempdir())), kept.took)


def compared(fleet: Fleet) -> dict[str, str]:
    """What was said of a fleet, and what it took, as `said/took`."""
    engine = fleet.said.engines[fleet.settings.engine]
    needs, took = engine.needs, fleet.took
    cpu = f"{fleet.cpu:.2f}" if len(took.rounds) > 1 else "-"  # the first round has more to do

    def mega(said: float, real: float) -> str:
        return f"{said / 1e6:.1f} / {real / 1e6:.1f}"

    return {
        "engine": fleet.settings.engine,
        "devices": f"{fleet.said.devices}",
        "invited": f"{fleet.said.invited}",
        "memory MB": mega(needs.memory, max(took.most + took.broker, took.tree)),
        "sent MB": f"{needs.up / 1e6:.3f} / {fleet.last.up / 1e6:.3f}",
        "received MB": f"{needs.down / 1e6:.3f} / {fleet.last.down / 1e6:.3f}",
        "open files": f"{needs.files} / {took.files}",
        "of the broker": f"{needs.broker_files} / {took.broker_files}",
        "disk MB": mega(needs.disk, fleet.disk),
        "CPU s a round": f"{engine.times.cpu:.2f} / {cpu}",
        "s a round": f"{engine.times.round:.2f} / {min(row.seconds for row in took.rounds):.2f}",
    }


def constants(small: Fleet, large: Fleet) -> dict[str, float]:
    """What two fleets of one engine say of its constants."""
    engine = large.settings.engine
    has, few, many = ENGINES[engine].constants, small.said.devices, large.said.devices

    def slope(of_small: float, of_large: float) -> float:
        return (of_large - of_small) / (many - few)

    crowd = crowd_of(large.settings)
    needed, weights = Needed(large.settings, crowd), 4 * large.said.weights
    state = needed.state_bytes(engine) / many
    clips = needed.clip_bytes * float(crowd.trained.sum() + crowd.held_out.sum()) / many
    memory = slope(small.took.most, large.took.most)
    files = slope(small.took.files, large.took.files)
    sent, received = large.least(lambda row: row.up) / many, large.least(lambda row: row.down) / many
    return {
        "base_memory_bytes": small.took.most - few * memory,
        "device_memory_bytes": memory - state - clips - has.update_memory_ratio * weights,
        "broker_memory_bytes": small.took.broker,
        "broker_device_bytes": slope(small.took.broker, large.took.broker),
        "device_files": files,
        "base_files": small.took.files - few * files,
        "broker_files": small.took.broker_files - (few if has.links else 0),
        "sent_round_bytes": sent - weights,
        "received_round_bytes": received - weights,
        "sent_once_bytes": large.first.up / many - sent,
        "received_once_bytes": large.first.down / many - received,
        "disk beside the forecast's": large.disk - large.said.engines[engine].needs.disk,
        "CPU ms a client": 1e3 * large.cpu / many,
    }


def growth(fleets: Sequence[Fleet]) -> list[str]:
    """How what a run takes grows with its devices, from the smallest fleet of an engine to the largest.

    Exponents of the devices: 1 is in proportion. Time is of the whole run, from its beginning to its report.
    """
    lines = []
    for engine in ENGINES:
        own = [fleet for fleet in fleets if fleet.settings.engine == engine]
        if len(own) < 2 or own[0].said.devices == own[-1].said.devices:
            continue
        few, many = own[0], own[-1]
        span = math.log(many.said.devices / few.said.devices)

        def grew(small: float, large: float, span: float = span) -> str:
            return f"{math.log(large / small) / span:.2f}"

        memory = [max(each.took.most, each.took.tree) for each in (few, many)]
        lines.append(
            f"{engine}, {few.said.devices:,} to {many.said.devices:,} devices, {few.said.invited:,} and "
            f"{many.said.invited:,} a round: exponents of time {grew(few.took.seconds, many.took.seconds)} "
            f"({few.took.seconds:.0f} and {many.took.seconds:.0f} s), of CPU {grew(few.last.cpu, many.last.cpu)} "
            f"({few.last.cpu:.0f} and {many.last.cpu:.0f} s), of memory {grew(*memory)} ({memory[0] / 1e9:.2f} and "
            f"{memory[1] / 1e9:.2f} GB)"
        )
    return lines


def print_table(rows: Sequence[Mapping[str, str]]) -> None:
    """A table in Markdown."""
    print(f"| {' | '.join(rows[0])} |\n|{'---|' * len(rows[0])}")
    for row in rows:
        print(f"| {' | '.join(row.values())} |")


def main() -> int:
    """Run all fleets and print what they say."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--devices", default="4,40,120")
    parser.add_argument("--engines", default="live,virtual")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--takes", type=int, default=5)
    parser.add_argument("--local", default="crnn-lite")
    parser.add_argument("--participation", type=float, default=1.0)
    parser.add_argument("--cohort", type=int)
    parser.add_argument("--config", type=Path)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--again", type=Path)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    if given.again is None:
        base = FleetSettings(
            words="yes,no",
            unseen=4,
            takes=given.takes,
            min_clips=4,
            rounds=given.rounds,
            local=given.local,
            participation=given.participation,
        )
        if given.config is not None:
            base = read_settings(given.config, {})
        counts = [int(count) for count in given.devices.split(",")]
        told = [msgspec.structs.replace(base, engine=e, devices=n) for e in given.engines.split(",") for n in counts]
        if given.cohort is not None:
            told = [msgspec.structs.replace(s, participation=min(1.0, given.cohort / (s.devices or 1))) for s in told]
        kept = []
        for settings in told:
            print(f"runs {settings.devices:,} devices, --engine {settings.engine}", file=sys.stderr)
            kept.append(ran(settings))
    else:
        kept = msgspec.json.decode(given.again.read_bytes(), type=list[Kept])
    if given.keep is not None:
        given.keep.write_bytes(msgspec.json.encode(kept))
    found = [said_of(each) for each in kept]
    rows = [compared(fleet) for fleet in found]
    said = {}
    for engine in ENGINES:
        whole = [fleet for fleet in found if fleet.settings.engine == engine and fleet.settings.participation == 1]
        if len(whole) > 1:
            said[engine] = constants(whole[0], whole[-1])
    if given.write:
        write_constants(said, f"python {' '.join(sys.argv)}")
    if given.json:
        print(json.dumps({"growth": growth(found), "fleets": rows, "constants": said, "load": os.getloadavg()[0]}))
        return 0
    print_table(rows)
    for engine, values in said.items():
        print(f"\n{engine}: " + ", ".join(f"{name} {value:,.4g}" for name, value in values.items()))
    for line in growth(found):
        print(f"\n{line}")
    print(f"\nload average {os.getloadavg()[0]:.1f}; command: python {' '.join(sys.argv)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
