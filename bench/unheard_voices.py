"""Words that no pack may take for its own, by speakers who trained none: three languages, and what sounds like them.

Kokoro's speakers of the test part (`auricle_export.voices.speakers`) say words of Mandarin, Japanese and Portuguese
that no recipe has, flite near misses of the packs' words (`auricle.speech.near_words`), those of the test part that
espeak-ng does not say in training either. Each is a folder as `auricle edge evaluate` takes it: OUT/cmn, OUT/ja, OUT/pt
and OUT/near. Then the device's own detector, with the thresholds of each pack, hears all of it in noise of the test
part, the same sound for every pack, and this prints false accepts an hour with 95 % intervals (Garwood 1936), and from
how many of the recordings they came.

    python bench/unheard_voices.py --pack gsc12-res --pack mine.tar.zst --noise gsc/_background_noise_ --out unheard
    auricle edge evaluate --pack gsc12-res --languages unheard/cmn --words unheard/near --noise gsc/_background_noise_

A voice of fewer than nine speakers has nobody left for a measurement: do not judge a pack by one that trained it.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np
import soundfile

from auricle.checks.onnx_network import frontend_of
from auricle.errors import AuricleError, DataError
from auricle.hearing.scenes import Scene, without_keywords
from auricle.hearing.sounds import Sound
from auricle.hearing.splits import noises_of, part_of
from auricle.packs.pack import Pack, load_pack
from auricle.speech.audio import SAMPLE_RATE, read_audio
from auricle.speech.clip_reader import read_each
from auricle.speech.confusables import confusables
from auricle.speech.near_words import near_words
from auricle.speech.sound_files import sound_files
from auricle_edge.evaluate.device import device_events, hear_by_detector
from auricle_edge.evaluate.listeners import listeners_of, waking_of
from auricle_edge.listening.detect import DetectTable, detect_settings
from auricle_edge.listening.detect.rules import is_keyword
from auricle_edge.runtimes import choose_runtime
from auricle_edge.runtimes.choice import vote_runtime
from auricle_export.voices.interface import VoiceSource
from auricle_export.voices.sources import choose_sources
from auricle_export.voices.speakers import parts_of

_TEXTS = {
    "cmn": """
        今天 昨天 现在 时间 朋友 老师 学生 学校 医院 商店 飞机 火车 汽车 手机 电脑 电话 音乐 电影 苹果 香蕉
        水果 牛奶 咖啡 米饭 面条 鸡蛋 桌子 椅子 房间 厨房 窗户 门口 左边 右边 上面 下面 不要 可以 知道 喜欢
        开灯 关灯 停下 继续 是的 没有 很好 太大 高兴 漂亮
    """,
    "ja": """
        ともだち せんせい がっこう びょういん ひこうき でんわ おんがく えいが りんご みかん くだもの たまご
        つくえ いす へや だいどころ まど うえ した なまえ てがみ とけい かばん ぼうし くるま みず さくら
        ねこ とり うみ そら ほし つき はる なつ あき ふゆ たのしい うれしい きれい おおきい ちいさい あたらしい
        とめて すすめて つけて けして はじめる おわる だいじょうぶ
    """,
    "pt": """
        amigo professora escola hospital avião telefone música cinema maçã laranja banana cozinha mesa cadeira
        quarto porta nome carta relógio bolsa chapéu carro água flor gato pássaro praia estrela lua primavera verão
        outono inverno alegre bonito grande pequeno novo pare continue ligue apague começar terminar direita
        esquerda acima abaixo ontem segunda
    """,
}
TEXTS: Mapping[str, tuple[str, ...]] = {code: tuple(texts.split()) for code, texts in _TEXTS.items()}
"""Words that no training has, by language."""
NEAR, NEAR_TEXTS = "near", 60
"""The kind of near misses, and how many of each word those of the test part are chosen from."""
SEED = 1
"""Of the near misses that are made up, and of pauses and noise."""


@dataclass(frozen=True)
class Row:
    """What a pack takes for its own words in one kind of sound."""

    pack: str
    kind: str
    what: str
    """Detections, or wakes and commands of a pack that sleeps."""
    count: int
    hours: float
    rate: float
    low: float
    high: float
    bad: int
    recordings: int


def main() -> int:
    """Write the folders, and print what each pack takes for its own."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pack", action="append", required=True, help="a pack to judge; once for each")
    parser.add_argument("--foreign", default="kokoro", help="who speaks other languages: auricle export voices list")
    parser.add_argument("--near", default="flite", help="who says the near misses")
    parser.add_argument("--kinds", default=",".join([*TEXTS, NEAR]), help="which of these, separated by commas")
    parser.add_argument("--takes", type=int, default=1, help="of each text")
    parser.add_argument("--passes", type=int, default=4, help="how often each take is heard, in other noise")
    parser.add_argument("--noise", type=Path, help="folder of background noises; without, nothing is judged")
    parser.add_argument("--out", type=Path, required=True, help="folder for cmn/, ja/, pt/ and near/")
    parser.add_argument("--json", action="store_true", help="print a JSON list of rows in place of the table")
    given = parser.parse_args()
    kinds = given.kinds.split(",")
    if unknown := set(kinds) - {*TEXTS, NEAR}:
        parser.error(f"there is no kind {sorted(unknown)[0]}: {', '.join([*TEXTS, NEAR])}")
    try:
        packs = [load_pack(name) for name in given.pack]
        for kind in kinds:
            language = "en" if kind == NEAR else kind
            (source,) = choose_sources([given.near if kind == NEAR else given.foreign], language)
            texts = near_texts(packs) if kind == NEAR else TEXTS[kind]
            written = write_takes(source, language, texts, given.takes, given.out / kind)
            print(f"{given.out / kind}: {written} takes of {len(texts)} texts by {source.name}", file=sys.stderr)
        if given.noise is not None:
            scenes = compose({kind: read_takes(given.out / kind) for kind in kinds}, noises(given.noise), given.passes)
            rows = [row for name, pack in zip(given.pack, packs, strict=True) for row in judge(name, pack, scenes)]
            print(json.dumps([asdict(row) for row in rows]) if given.json else table(rows))
    except (AuricleError, OSError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    return 0


def near_texts(packs: Sequence[Pack]) -> list[str]:
    """Near misses of all words of the packs, which neither a recipe's voice nor espeak-ng says in training."""
    words = list(dict.fromkeys(label for pack in packs for label in pack.labels if is_keyword(label)))
    known = {text for texts in confusables(words).values() for text in texts}
    every = (text for texts in near_words(words, count=NEAR_TEXTS, seed=SEED).values() for text in texts)
    return [text for text in dict.fromkeys(every) if part_of(text) == "test" and text not in known]


def write_takes(source: VoiceSource, language: str, texts: Sequence[str], takes: int, folder: Path) -> int:
    """Write `<text>/<voice and number>_nohash_0.wav` by speakers of the test part, or all of a voice that has few.

    Returns how many there are, those of an earlier run included.
    """
    # Speakers are divided as they are for a training on English words.
    everyone = source.speakers("en" if "en" in source.languages() else language)
    judges = parts_of(everyone)["test"]
    for place, text in enumerate(texts):
        for number in range(place * takes, (place + 1) * takes):
            file = folder / text / f"{source.name}{number}_nohash_0.wav"
            if not file.exists():
                sound = source.speak(text, language, number, judges)
                file.parent.mkdir(parents=True, exist_ok=True)
                soundfile.write(file, sound, SAMPLE_RATE)
    return len(texts) * takes


def read_takes(folder: Path) -> list[Sound]:
    """The takes of a folder, by file name."""
    return [read_audio(path) for path in sorted(sound_files(folder, deep=True))]


def noises(folder: Path) -> list[Sound]:
    """The noises of the test part, which no training has; DataError where there are none."""
    found, _ = read_each(noises_of(sorted(sound_files(folder, deep=True)), "test"))
    if not found:
        raise DataError(f"{folder} holds no noise of the test part: name a folder of more noises.")
    return list(found)


def compose(takes: Mapping[str, Sequence[Sound]], noise: Sequence[Sound], passes: int) -> list[Scene]:
    """Every take `passes` times, 0.3 to 1.5 s apart, at 5 to 20 dB over noise; no kind depends on others."""
    return [
        without_keywords(kind, takes[kind], noise, np.random.default_rng([SEED, *kind.encode(), number]))
        for kind in takes
        for number in range(passes)
    ]


def judge(name: str, pack: Pack, scenes: Sequence[Scene]) -> list[Row]:
    """What a device with the pack, its settings and its thresholds hears in scenes without its words, by kind."""
    settings, frontend = detect_settings(DetectTable(), pack), frontend_of(pack)
    runtime = choose_runtime("auto", pack, training=False).runtime
    (listener,) = listeners_of((), pack, lambda: runtime, partial(vote_runtime, runtime, 1))
    hear = partial(hear_by_detector, frontend=frontend, labels=pack.labels, recognise=listener.recognise)
    heard = [hear(s.samples, settings=settings, vote=listener.vote) for s in scenes]
    waking = waking_of(pack.labels, settings)
    told = device_events(scenes, heard, settings.wake, waking.window if waking else 0.0)
    ways = [("commands" if waking else "detections", told.false_commands, told.command_recordings)]
    if waking:
        ways.insert(0, ("wakes", told.false_wakes, told.wake_recordings))
    rows = []
    for what, events, origins in ways:
        for kind, event in events.items():
            interval, recordings = event.interval, origins[kind]
            numbers = (event.count, event.hours, event.rate, interval.low, interval.high)
            rows.append(Row(name, kind, what, *numbers, recordings.bad, recordings.heard))
    return rows


def table(rows: Sequence[Row]) -> str:
    """Rows as text, a line each."""
    lines = [f"{'pack':24} {'false':10} {'kind':5} {'hours':>6} {'an hour':>8} {'95 %':>14} {'recordings':>12}"]
    for row in rows:
        spread, share = f"{row.low:.1f}-{row.high:.1f}", f"{row.bad} of {row.recordings}"
        lines.append(
            f"{row.pack[-24:]:24} {row.what:10} {row.kind:5} {row.hours:6.2f} {row.rate:8.1f} {spread:>14} {share:>12}"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
