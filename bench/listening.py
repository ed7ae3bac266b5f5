"""What owners' own labels and rounds add to a pack: the same listeners before and after, at equal false accepts.

Speakers of `gsc` own a device each, put together as `auricle edge run` does it. Each enrols every word once, lives some
days with it and answers what it hears; between the days the devices train together, by a real coordinator over a real
broker. Before and after, and at the start of each day, every device hears the same sound twice: with the plug-in alone,
and with plug-in and own model as the device combines them. Stated are hits at 1, 5 and 20 false accepts an hour of all
devices together, differences owner by owner, what the pack's own thresholds give, each day and each round.

What days are made of and what judges have no corpus of speech or words, no speaker, no reader and no noise in common
(`listening_sound.py`); owners' takes are split, and packs that were trained on `gsc` are refused.

    python bench/listening.py --data DATA --results DIR
    python bench/listening.py --data DATA --results DIR --answers 1 --answers 0.1
    python bench/listening.py --data DATA --results DIR --pack gsc12 --judge clips

Each fleet takes hours; what it found is written to `--results` when it is done, and a run that was interrupted and is
started again goes on with the next fleet. Another seed is another draw of owners, of their order and of all sound.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import msgspec

from auricle.errors import AuricleError
from auricle_edge.training.own_model import own_model
from auricle_learning.presets import PRESETS
from bench.hearing_sound import load_stranger
from bench.listening_fleet import keep, known, run_fleet
from bench.listening_result import Asked, Fleet, Result
from bench.listening_table import report


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with gsc, stream, gsc-more, stream-more ...")
    parser.add_argument("--pack", default="gsc12-res", help="from which devices start: name, folder or .tar.zst")
    parser.add_argument("--owners", type=int, default=35, help="who own a device each")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--days", type=int, default=3, help="on which a device hears its owner, between the rounds")
    parser.add_argument("--seeds", type=int, default=5, help="fleets, of seeds 0, 1, ...")
    parser.add_argument("--answers", type=float, action="append", help="share that owners answer; several times")
    parser.add_argument("--judge", choices=("streams", "clips"), default="streams", help="of rounds")
    parser.add_argument("--judge-minutes", type=float, default=15.0, help="of the pack's negatives that judge a round")
    parser.add_argument("--preset", choices=tuple(PRESETS), default="practical", help="of the coordinator")
    parser.add_argument("--server-rate", type=float, help="learning rate of the preset's server optimizer")
    parser.add_argument("--local", metavar="MODEL", help="the devices' own model; without, the pack's larger one")
    parser.add_argument("--carried", type=float, default=0.5, help="weight of the pack's negatives in a round")
    parser.add_argument("--day-minutes", type=float, default=8.0, help="of other words on a day")
    parser.add_argument("--minutes", type=float, default=4.0, help="of each kind of sound that judges, an owner")
    parser.add_argument("--passes", type=int, default=1, help="how often each kept take is said in each kind of scene")
    parser.add_argument("--threads", type=int, default=1, help="devices that train or hear at the same time")
    parser.add_argument("--results", type=Path, help="folder for what each fleet found, to go on with")
    parser.add_argument("--json", action="store_true")
    found = parser.parse_args(given)
    found.answers = found.answers or [1.0]
    if min(found.owners, found.days, found.seeds, found.passes, found.threads) < 1 or found.rounds < found.days:
        parser.error("--owners, --days, --seeds, --passes and --threads are at least 1, --rounds at least --days")
    if not all(0 <= share <= 1 for share in found.answers) or min(found.minutes, found.day_minutes) <= 0:
        parser.error("--answers is a share from 0 to 1; --minutes and --day-minutes are more than 0")
    return found


def measure(given: argparse.Namespace) -> list[Fleet]:
    """Every fleet, or what an earlier run found about it.

    Raises
    ------
    AuricleError
        The pack, the recordings or an earlier result cannot be used.
    """
    pack = load_stranger(given.pack)
    asked = Asked(
        pack=f"{pack.manifest.name} {pack.identity[:12]}",
        owners=given.owners,
        days=given.days,
        rounds=given.rounds,
        day_minutes=given.day_minutes,
        minutes=given.minutes,
        passes=given.passes,
        judge=given.judge,
        judge_minutes=given.judge_minutes,
        preset=given.preset,
        server_rate=given.server_rate,
        local=own_model(pack, given.local),
        carried=given.carried,
    )
    fleets = []
    for answers in given.answers:
        for seed in range(given.seeds):
            fleet = known(given.results, asked, seed, answers)
            if fleet is None:
                name = f"seed {seed}, answers {answers:g}: "
                fleet = run_fleet(given.data, pack, asked, seed, answers, given.threads, lambda t, n=name: say(n + t))
                keep(given.results, fleet)
            fleets.append(fleet)
    return fleets


def say(text: str) -> None:
    """Progress, on standard error."""
    print(text, file=sys.stderr, flush=True)


def main() -> int:
    """Measure and print."""
    given = arguments()
    command = f"python {' '.join(sys.argv)}"
    say(f"load of the machine: {os.getloadavg()[0]:.2f}")
    try:
        fleets = measure(given)
    except AuricleError as error:
        say(f"bench: {error}")
        return 1
    except KeyboardInterrupt:
        kept = "" if given.results is None else f"; fleets that were done are in {given.results}"
        say(f"\nbench: interrupted{kept}.")
        return 130
    if given.json:
        print(msgspec.json.encode(Result(command, tuple(fleets))).decode())
    else:
        print(f"{report(fleets)}\n\ncommand: {command}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
