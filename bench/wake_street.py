r"""A street of houses that say a phrase: what rounds bring to a pack of an own wake word.

Half of the recordings of a phrase (groups of `twins.csv`, shuffled by `random.Random(0)`) are dealt to houses, each of
which also says other words: those of one speaker of the part that trains. Nobody wrote down who says a phrase: a
house has takes by several people, and somebody may be heard in two houses or judge, too. The other half judges.

    python bench/wake_street.py --data DIR jarvis --out street
    auricle fleet run --pack jarvis.tar.zst --start pack --data street/houses --rounds 20 --min-clips 5 --unseen 2 \
        --out run
    python bench/own_wake_word.py --data DIR jarvis.tar.zst --takes street/others --repeats 3
    python bench/own_wake_word.py --data DIR jarvis.tar.zst --takes street/others --repeats 3 \
        --weights run/model.safetensors
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections import defaultdict
from pathlib import Path

from auricle.errors import AuricleError, DataError
from auricle.hearing.splits import part_of, twin_groups
from auricle.speech.clip_folder import scan_folder


def main() -> int:
    """Write the two folders."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("phrase")
    parser.add_argument("--data", type=Path, required=True, help="folder of the recordings")
    parser.add_argument("--houses", type=int, default=24)
    parser.add_argument("--takes", type=int, default=5, help="of the phrase in a house")
    parser.add_argument("--words", type=int, default=15, help="other words in a house")
    parser.add_argument("--out", type=Path, required=True, help="new folder of links, for houses/ and others/")
    parser.add_argument("--json", action="store_true", help="print a JSON object in place of a line")
    given = parser.parse_args()
    try:
        facts = build_street(given.data, given.phrase, given.houses, given.takes, given.words, given.out)
    except (AuricleError, OSError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    line = "{houses} houses with {takes} takes each, {others} recordings in {out}/others".format_map(facts)
    print(json.dumps(facts) if given.json else line)
    return 0


def build_street(data: Path, phrase: str, houses: int, takes: int, words: int, out: Path) -> dict[str, object]:
    """Link takes and other words of houses into `out/houses`, and the recordings that judge into `out/others`.

    Raises
    ------
    DataError
        There are too few recordings or speakers, or `out` is there already.
    """
    if out.exists():
        raise DataError(f"{out} is there already: name another folder with --out.")
    recordings = _recordings(data / "wakewords", phrase)
    half = len(recordings) // 2
    if houses * takes > half:
        raise DataError(
            f'{houses} houses with {takes} takes need {houses * takes} recordings of "{phrase}", and half of those '
            f"that there are is {half}: take fewer houses."
        )
    speakers = _speakers(data / "gsc-more", words)
    if len(speakers) < houses:
        raise DataError(f"{len(speakers)} speakers say {words} other words: take so many houses at most.")
    for number, speaker in zip(range(houses), speakers, strict=False):
        for path in recordings[number * takes : (number + 1) * takes]:
            _link(path, out / "houses" / phrase, f"house{number}")
        for path in speakers[speaker]:
            _link(path, out / "houses" / path.parent.name, f"house{number}")
    for path in recordings[half:]:
        _link(path, out / "others" / phrase, path.stem.partition("_nohash_")[0])
    return {"phrase": phrase, "houses": houses, "takes": takes, "others": len(recordings) - half, "out": str(out)}


def _recordings(root: Path, phrase: str) -> list[Path]:
    """One take of each recording of the phrase, shuffled."""
    groups, takes = twin_groups(root), dict[str, Path]()
    for clip in scan_folder(root, phrases=(phrase,)).clips:
        if clip.word == phrase:
            takes.setdefault(groups.get(clip.path, clip.path.name), clip.path)
    names = sorted(takes)
    random.Random(0).shuffle(names)
    return [takes[name] for name in names]


def _speakers(root: Path, words: int) -> dict[str, list[Path]]:
    """So many clips of each speaker of the part that trains who has as many, by the speaker's name."""
    said = defaultdict[str, list[Path]](list)
    for clip in scan_folder(root).clips:
        if part_of(clip.speaker) == "train":
            said[clip.speaker].append(clip.path)
    return {speaker: paths[:words] for speaker, paths in sorted(said.items()) if len(paths) >= words}


def _link(path: Path, folder: Path, speaker: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    number = sum(1 for _ in folder.glob(f"{speaker}_nohash_*"))
    (folder / f"{speaker}_nohash_{number}{path.suffix}").symlink_to(path.resolve())


if __name__ == "__main__":
    sys.exit(main())
