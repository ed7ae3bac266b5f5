"""A list of recordings for `--data`: of folders in the layout of Speech Commands, those of people with enough clips.

    python tools/people_list.py recordings/people-8.csv --folder gsc --folder gsc-more --words up,down --least 8

The list lies above the folders, with a row for every clip of these people: path, word, speaker (docs/fleet.md). A
recording that lies in several folders is listed once.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import sys
from collections import Counter
from pathlib import Path

SPEAKER = "_nohash_"
"""What stands behind the speaker in a file's name."""


def main() -> int:
    """Write the list, and say what is in it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="the list")
    parser.add_argument("--folder", action="append", required=True, help="beside the list; again for several")
    parser.add_argument("--words", required=True, help="a,b,c: words whose clips are counted")
    parser.add_argument("--least", type=int, default=1, help="fewest clips of these words that a listed speaker has")
    given = parser.parse_args()
    rows = clips(given.out.parent, given.folder)
    words = set(given.words.split(","))
    counts = Counter(speaker for _, word, speaker in rows if word in words)
    chosen = [row for row in rows if counts[row[2]] >= given.least]
    if not chosen:
        print(f"No speaker in {', '.join(given.folder)} has {given.least} clips of {given.words}.", file=sys.stderr)
        return 1
    with given.out.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["path", "word", "speaker"])
        writer.writerows(chosen)
    print(f"{given.out}: {len(chosen):,} clips of {len({row[2] for row in chosen}):,} speakers")
    return 0


def clips(above: Path, folders: list[str]) -> list[tuple[str, str, str]]:
    """Path from the list on, word and speaker of each recording, once, in the order of the folders and names."""
    found, seen = [], set()
    for folder in folders:
        for path in sorted((above / folder).glob(f"*/*{SPEAKER}*")):
            digest = hashlib.sha256(path.read_bytes()).digest()
            if path.parent.name.startswith("_") or digest in seen:
                continue
            seen.add(digest)
            found.append((path.relative_to(above).as_posix(), path.parent.name, path.name.partition(SPEAKER)[0]))
    return found


if __name__ == "__main__":
    raise SystemExit(main())
