"""Words that no pack may take for its own, by voices that trained none: Mandarin, and what the pack's words sound like.

No shipped pack is trained on voices of Kokoro, flite and festival. Kokoro's say words of Mandarin that no recipe has,
the others near misses of the pack's words (`auricle.speech.near_words`, of which espeak-ng says some in training), each
as a folder that `auricle edge evaluate` takes.

    python bench/unheard_voices.py --pack gsc12-res --out unheard
    auricle edge evaluate --pack gsc12-res --languages unheard/mandarin --words unheard/near --noise NOISE
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import soundfile

from auricle.errors import AuricleError
from auricle.packs.pack import load_pack
from auricle.speech.audio import SAMPLE_RATE
from auricle.speech.near_words import near_words
from auricle_edge.listening.detect.rules import is_keyword
from auricle_export.voices.interface import VoiceSource
from auricle_export.voices.sources import choose_sources

MANDARIN = """
今天 昨天 现在 时间 朋友 老师 学生 学校 医院 商店
飞机 火车 汽车 手机 电脑 电话 音乐 电影 苹果 香蕉
水果 牛奶 咖啡 米饭 面条 鸡蛋 桌子 椅子 房间 厨房
窗户 门口 左边 右边 上面 下面 不要 可以 知道 喜欢
开灯 关灯 停下 继续 是的 没有 很好 太大 高兴 漂亮
"""
NEAR = 10
"""Near misses of each of the pack's words."""
SEED = 1
"""Of the near misses that are made up."""


def main() -> int:
    """Write the folders."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pack", default="home", help="whose words the near misses sound like")
    parser.add_argument("--mandarin", default="kokoro", help="who says Mandarin: auricle export voices list")
    parser.add_argument("--near", default="flite", help="who says the near misses")
    parser.add_argument("--takes", type=int, default=1, help="of each text, each by another speaker")
    parser.add_argument("--out", type=Path, required=True, help="folder for mandarin/ and near/")
    given = parser.parse_args()
    try:
        words = [label for label in load_pack(given.pack).labels if is_keyword(label)]
        near = dict.fromkeys(text for texts in near_words(words, count=NEAR, seed=SEED).values() for text in texts)
        for kind, voice, language, texts in (
            ("near", given.near, "en", list(near)),
            ("mandarin", given.mandarin, "cmn", MANDARIN.split()),
        ):
            (source,) = choose_sources([voice], language)
            written = write_takes(source, language, texts, given.takes, given.out / kind)
            print(f"{given.out / kind}: {written} takes of {len(texts)} texts by {source.name}", flush=True)
    except (AuricleError, OSError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    return 0


def write_takes(source: VoiceSource, language: str, texts: Sequence[str], takes: int, folder: Path) -> int:
    """Write `<text>/<voice and number>_nohash_0.wav`; how many there are, those of an earlier run included."""
    for place, text in enumerate(texts):
        for number in range(place * takes, (place + 1) * takes):
            file = folder / text / f"{source.name}{number}_nohash_0.wav"
            if not file.exists():
                sound = source.speak(text, language, number)
                file.parent.mkdir(parents=True, exist_ok=True)
                soundfile.write(file, sound, SAMPLE_RATE)
    return len(texts) * takes


if __name__ == "__main__":
    sys.exit(main())
