"""How well packs of `auricle export wakeword` hear their phrase, and how often they are wrong.

The phrase is said by people where `wakewords` of the data holds it (all takes, each recording once: no pack of
synthetic voices alone was trained on them), else by synthetic voices that the pack was not trained on; with `--takes`
by the people in that folder. The sound without the phrase is recordings of the test part of people, readers, other
languages and noises, in other noise each time.
Thresholds are the pack's, chosen on its validation streams; the curve is that of the judging streams themselves.

    python bench/own_wake_word.py --data DIR PACK... [--repeats 12] [--language en] [--takes DIR]
        [--weights run/model.safetensors] [--record FILE --trained-on 0 --voices kokoro]
    python bench/own_wake_word.py --data DIR PHRASE... --split OUT [--takes DIR]
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np
from msgspec import UNSET

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from auricle.checks.onnx_network import frontend_of
from auricle.errors import AuricleError, DataError, PackError
from auricle.hearing.curve import Counts, curve_of, points
from auricle.hearing.intervals import count_interval, share_interval
from auricle.hearing.rule import Rule, refractory_of
from auricle.hearing.sounds import Take, fingerprint
from auricle.hearing.splits import part_of, twin_groups
from auricle.packs.manifest import Listening
from auricle.packs.pack import Pack
from auricle.packs.start import read_start, start_weights
from auricle.speech.clip_folder import scan_folder
from auricle.speech.other_speech import speak_texts
from auricle.speech.voices import choose_voices, most_voices
from auricle.wire.tensors import Flat
from auricle_edge.evaluate.sources import Folders, read_sources
from auricle_export.pretrain.corpus import Heard
from auricle_export.pretrain.live import recogniser_of
from auricle_export.pretrain.streams import Streams, make_streams
from auricle_export.pretrain.voted_streams import as_heard_by
from auricle_export.wakeword.people import PeopleHearing, networks_of
from bench.hearing_sound import load_stranger, never_heard

RATES = (0.2, 0.5, 1.0, 5.0)
TEN_TAKES = 10
"""Takes to train on, of `--split`."""
VOICES_SEED = 1_000
"""Of the voices that judge: other takes than any pack met."""
_MARGIN = 4_000


def main() -> int:
    """Print a row for each pack."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("packs", nargs="+", metavar="PACK", help="or phrases, with --split")
    parser.add_argument("--data", type=Path, required=True, help="folder of the recordings")
    parser.add_argument("--repeats", type=int, default=12, help="how often what is no phrase is heard in other noise")
    parser.add_argument("--takes", type=Path, help="folder of takes that judge, PHRASE/SPEAKER_nohash_N.wav")
    parser.add_argument("--split", type=Path, help="new folder of links: ten takes of each phrase, and the others")
    parser.add_argument(
        "--weights", type=Path, help="of the packs' plug-in, as a run leaves them, in place of their own"
    )
    parser.add_argument("--language", default="en", help="of the voices that say a phrase which no person says")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--trained-on", type=int, default=0, help="takes of people in their training, for --record")
    parser.add_argument("--voices", nargs="*", default=[], help="voices beside espeak-ng's in it, for --record")
    parser.add_argument("--record", type=Path, help="a record of packs heard by people that gets these rows")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.repeats < 1:
        parser.error("--repeats has to be at least 1")
    try:
        if options.split is not None:
            for phrase in options.packs:
                split_takes(options.takes or options.data / "wakewords", phrase, options.split)
            return 0
        rows = [row for name in options.packs for row in judge(name, options)]
    except AuricleError as error:
        print(error, file=sys.stderr)
        return 1
    print(json.dumps(rows) if options.json else table(rows))
    if options.record is not None:
        if any(row["said_by"] == "voices" for row in rows):
            print(
                f"{options.record} is of packs that people judged: name takes by people with --takes.", file=sys.stderr
            )
            return 1
        _keep(options.record, [{**row, "trained_on": options.trained_on, "voices": options.voices} for row in rows])
    return 0


def _keep(record: Path, rows: Sequence[dict[str, object]]) -> None:
    """Add rows to a record: a second training of the same shows how much one says."""
    before = json.loads(record.read_text()) if record.exists() else []
    names = [field.encode_name for field in msgspec.structs.fields(PeopleHearing)]
    record.write_text(json.dumps([*before, *({name: row[name] for name in names} for row in rows)], indent=1) + "\n")


def split_takes(root: Path, phrase: str, out: Path) -> None:
    """Link one take of each of ten recordings into `out/ten/PHRASE`, those of the others into `out/others/PHRASE`.

    Files that are one recording are a group of `twins.csv`; `random.Random(0)` draws the ten groups.

    Raises
    ------
    DataError
        The folder has no more than ten recordings of the phrase, or `out` has some already.
    """
    groups, recordings = twin_groups(root), dict[str, Path]()
    for clip in scan_folder(root, phrases=(phrase,)).clips:
        if clip.word == phrase:
            recordings.setdefault(groups.get(clip.path, clip.path.name), clip.path)
    if len(recordings) <= TEN_TAKES:
        raise DataError(f'{root} has {len(recordings)} recordings of "{phrase}": name a folder with more than ten.')
    names = sorted(recordings)
    random.Random(0).shuffle(names)
    for folder, mine in (("ten", names[:TEN_TAKES]), ("others", names[TEN_TAKES:])):
        place = out / folder / phrase
        if place.exists():
            raise DataError(f"{place} is there already: name another folder with --split.")
        place.mkdir(parents=True)
        for name in mine:
            (place / recordings[name].name).symlink_to(recordings[name].resolve())


def judge(name: str, options: argparse.Namespace) -> list[dict[str, object]]:
    """What a pack makes of each of its phrases."""
    pack, data = load_stranger(name), options.data
    listening = _listening(pack)
    phrases = tuple(listening.thresholds)
    sources = never_heard(data, (data / "gsc-more",), phrases)
    people = _recorded(options.takes or data / "wakewords", phrases)
    rows = []
    for phrase in phrases:
        takes = tuple(take for take in people if take.word == phrase)
        if options.takes is not None and not takes:
            raise DataError(f'{options.takes} has no take of "{phrase}": name a folder with one of that name in it.')
        said_by = "voices" if not takes else "people" if options.takes is None else str(options.takes)
        takes = takes or _voices(phrase, options.language)
        heard = Heard(takes, sources.words, sources.speech, sources.noise, sources.languages)
        rule = Rule(
            hop=listening.hop,
            smoothing=listening.smoothing,
            patience=listening.patience,
            refractory=refractory_of(pack.manifest.task.seconds),
        )
        streams = make_streams(
            heard, pack.labels, frontend_of(pack), options.seed, passes=2, negatives=options.repeats, rule=rule
        )
        rows.append(_row(name, pack, phrase, streams, said_by, len(takes), _weights(pack, options.weights)))
    return rows


def _recorded(folder: Path, phrases: Sequence[str]) -> list[Take]:
    """Takes of a folder, each recording once."""
    found: dict[str, Take] = {}
    if any((folder / phrase).is_dir() for phrase in phrases):
        for take in read_sources(Folders(keywords=(folder,)), phrases, ()).keywords:
            found.setdefault(fingerprint(take.sound), take)
    return list(found.values())


def _listening(pack: Pack) -> Listening:
    listening = pack.manifest.listening
    if listening is UNSET or not listening.thresholds:
        raise PackError(f"The pack {pack.manifest.name} has no thresholds: name one of auricle export wakeword.")
    return listening


def _voices(phrase: str, language: str) -> tuple[Take, ...]:
    voices = choose_voices(most_voices(language), VOICES_SEED, language)
    voices = [voice for voice in voices if part_of(voice.variant) == "test"]
    return tuple(
        Take(phrase, take.voice, np.pad(take.audio.astype(np.float32) / np.float32(32_768), _MARGIN))
        for take in speak_texts([phrase], voices, min(160, 2 * len(voices)), VOICES_SEED)
    )


def _weights(pack: Pack, named: Path | None) -> Flat:
    """The plug-in's (P,): those of a file, or the pack's."""
    model = pack.manifest.plugin
    if named is None:
        return start_weights(pack, model)
    if not named.is_file():
        raise DataError(f"{named} is not a file: name weights with --weights, as run/model.safetensors.")
    return read_start(named.read_bytes(), pack.table(model), str(named))


def _row(name: str, pack: Pack, phrase: str, streams: Streams, by: str, takes: int, weights: Flat) -> dict[str, object]:
    listening, model = _listening(pack), pack.manifest.plugin
    posteriors = as_heard_by(pack, streams).posteriors(recogniser_of(model, pack, weights))
    frontend, vote = networks_of(pack.manifest)
    column = streams.labels.index(phrase)
    alone = [rows[:, [column]] for rows in posteriors]
    counts = streams.count(alone, (phrase,))
    own = curve_of(alone, streams.scenes, (phrase,), streams.rule, np.array([[listening.thresholds[phrase]]]))
    kinds = sorted({word.kind for word in counts.words})
    accepts = int(own.total()[0])
    bounds = count_interval(accepts)
    shares = {kind: float(own.hit[0][own.chosen(kind=kind)].mean()) for kind in kinds}
    heard = int(own.hit[0].sum())
    interval = share_interval(heard, own.hit.shape[1])
    return {
        "pack": Path(name).name,
        "phrase": phrase,
        "said_by": by,
        "takes": takes,
        "hours": round(counts.all_hours, 2),
        "recordings": own.origins.at().heard,
        "at_rate": {str(rate): _at(counts, rate, kinds) for rate in RATES},
        "frontend": frontend,
        "vote": vote,
        "threshold": listening.thresholds[phrase],
        "heard": round(heard / own.hit.shape[1], 4),
        "heard_interval": [round(interval.low, 4), round(interval.high, 4)],
        "heard_by_kind": {kind: round(share, 4) for kind, share in shares.items()},
        "false_accepts": accepts,
        "false_accepts_an_hour": [round(bound / own.all_hours, 3) for bound in (accepts, bounds.low, bounds.high)],
    }


def _at(counts: Counts, rate: float, kinds: Sequence[str]) -> dict[str, float]:
    return {kind: round(points(counts, counts.chosen(kind=kind), (rate,))[0].share, 4) for kind in kinds}


def table(rows: Sequence[dict[str, object]]) -> str:
    """The rows in 80 columns."""
    lines = []
    for row in rows:
        accepts = row["false_accepts_an_hour"]
        assert isinstance(accepts, list)
        lines.append(
            f"{row['pack']}: {row['phrase']}, {row['takes']} takes by {row['said_by']}, {row['hours']} h of "
            f"{row['recordings']} recordings without it"
        )
        lines.append(
            f"  own threshold {row['threshold']}: heard {row['heard']:.1%}, {row['false_accepts']} false accepts, "
            f"{accepts[0]} an hour ({accepts[1]}-{accepts[2]})"
        )
        at_rate = row["at_rate"]
        assert isinstance(at_rate, dict)
        for rate, kinds in at_rate.items():
            shares = ", ".join(f"{kind} {share:.0%}" for kind, share in kinds.items())
            lines.append(f"  at {rate} an hour: {shares}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
