"""Make every mistake of `tests/mistakes/`, and write what was printed to docs/mistakes.md.

    python -m tools.mistakes [--check] [--only WORD] [--quick] [edge cloud fleet export flash]

What is not made again stays on the page as it was. The exit code is 1 where an answer is not as it has to be, and with
--check also where the page says something else.
Needs the environment of `make test`; some mistakes need root, mosquitto or a small disk, and are passed over without.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.mistakes.before import Need, UnavailableError
from tests.mistakes.judge import faults, shown
from tests.mistakes.page import PAGE, written
from tests.mistakes.record import PARTS, Mistake, read_mistakes
from tests.mistakes.run import run


def tried(mistakes: Iterable[Mistake]) -> Iterator[tuple[Mistake, str, list[str], float]]:
    """Each mistake with what was printed, what is wrong with that, and the seconds; without those it cannot make."""
    with tempfile.TemporaryDirectory(prefix="auricle-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "once").mkdir()
        need = Need(folder / "once")
        try:
            for number, mistake in enumerate(mistakes):
                place = folder / f"m{number}"
                place.mkdir(mode=0o755)
                try:
                    outcome = run(mistake, place, need)
                except UnavailableError as why:
                    print(f"passed over: {mistake.what}: {why}", file=sys.stderr)
                    continue
                yield mistake, shown(mistake, outcome, str(place)), list(faults(mistake, outcome)), outcome.seconds
        finally:
            need.close()


def main() -> int:
    """Print every mistake with its answer; 1 where one is not as it has to be."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="part", help=", ".join(PARTS))
    parser.add_argument("--check", action="store_true", help="write nothing: compare with the page")
    parser.add_argument("--only", default="", help="those whose text holds this")
    parser.add_argument("--quick", action="store_true", help="those that are a command line alone")
    parser.add_argument("--fast", action="store_true", help="without those that take long")
    parser.add_argument("--faults", action="store_true", help="print only what is wrong")
    told = parser.parse_args()
    bad, rows = 0, {}
    everything = {part: read_mistakes(part) for part in PARTS}
    for part in told.parts or PARTS:
        chosen = [m for m in everything[part] if told.only in f"{m.what} {m.command} {m.habit}"]
        chosen = [m for m in chosen if m.quick or not told.quick]
        chosen = [m for m in chosen if not (m.slow and told.fast)]
        for mistake, said, wrong, seconds in tried(chosen):
            rows[part, mistake.what] = said
            bad += bool(wrong)
            if wrong or not told.faults:
                print(f"\n{part}, {mistake.habit}: {mistake.what}  [{seconds:.1f} s]\n$ {mistake.command}\n{said}")
            for fault in wrong:
                print(f"  !! {fault}", flush=True)
    before = PAGE.read_text() if PAGE.exists() else ""
    page = written(rows, everything, before)
    if told.check:
        bad += page != before
    else:
        PAGE.write_text(page)
    print(f"{len(rows)} mistakes, {bad} answers are not as they have to be.", file=sys.stderr)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
