"""Small corpora in the published layouts of UrbanSound8K, CREMA-D and IEMOCAP, each label a tone of its own."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import soundfile

from auricle.speech.words import URBAN_SOUNDS

FORMATS = (
    (44_100, 2, "PCM_24"),
    (48_000, 1, "FLOAT"),
    (8_000, 1, "PCM_U8"),
    (22_050, 1, "MS_ADPCM"),
    (96_000, 2, "PCM_16"),
)
"""Rate, channels and encoding of the slices of UrbanSound8K in turn."""
RECORDINGS, SLICES = 5, 4
"""Of each class, and of each recording."""
ACTED = {"ANG": "angry", "DIS": "disgusted", "HAP": "happy", "NEU": "neutral", "SAD": "sad"}
JUDGED = ("ang", "hap", "exc", "neu", "sad", "fru", "xxx")
DIALOGUES = ("Ses01F_impro01", "Ses01M_impro02", "Ses01F_script01_1", "Ses02F_impro01", "Ses02M_impro02")
HEADER = "slice_file_name,fsID,start,end,salience,fold,classID,class"


def write_tone(path: Path, pitch: float, seconds: float, seed: int, rate: int = 16_000, form: str = "PCM_16") -> None:
    """One channel; a tone in a little noise, at another loudness for each seed."""
    rng = np.random.default_rng(seed)
    time = np.arange(round(seconds * rate)) / rate
    sound = rng.uniform(0.2, 0.5) * np.sin(2 * np.pi * pitch * time) + 0.01 * rng.normal(size=len(time))
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, sound, rate, form)


def make_urbansound(root: Path, seconds: float = 0.5) -> Path:
    """Ten classes, each of `RECORDINGS` recordings with `SLICES` clips, which lie in one fold."""
    rows = []
    for label, name in enumerate(URBAN_SOUNDS):
        for take in range(RECORDINGS):
            recording, fold = 1000 + RECORDINGS * label + take, take + 1
            for part in range(SLICES):
                slice_name = f"{recording}-{label}-0-{part}.wav"
                rate, channels, form = FORMATS[part]
                path = root / "audio" / f"fold{fold}" / slice_name
                write_tone(path, 200 + 330 * label + take, seconds, recording + part, rate, form)
                if channels == 2:
                    sound, _ = soundfile.read(path)
                    soundfile.write(path, np.stack([sound, 0.5 * sound], axis=1), rate, form)
                rows.append([slice_name, recording, 0.0, seconds, 1, fold, label, name])
    (root / "metadata").mkdir()
    with (root / "metadata" / "UrbanSound8K.csv").open("w", newline="") as table:
        csv.writer(table).writerows([HEADER.split(","), *rows])
    return root


def make_crema_d(root: Path, actors: int = 6, sentences: int = 5, seconds: float = 0.5) -> Path:
    """So many actors, each of whom says so many sentences in each of the emotions of `ACTED`."""
    for actor in range(1001, 1001 + actors):
        for place, emotion in enumerate(ACTED):
            for sentence in ("IEO", "TIE", "IOM", "IWW", "TAI", "MTI")[:sentences]:
                path = root / "AudioWAV" / f"{actor}_{sentence}_{emotion}_XX.wav"
                write_tone(path, 300 + 500 * place + actor - 1000, seconds, actor * 10 + place)
    return root


def make_iemocap(root: Path, turns: int = 3) -> Path:
    """Two sessions, in each dialogue both actors, each with so many utterances of each label of `JUDGED`."""
    for dialogue in DIALOGUES:
        session = root / f"Session{int(dialogue[3:5])}"
        lines = ["% [START_TIME - END_TIME] TURN_NAME EMOTION [V, A, D]\n", "\n"]
        for voice in "FM":
            for place in range(len(JUDGED) * turns):
                name, emotion = f"{dialogue}_{voice}{place:03d}", JUDGED[place % len(JUDGED)]
                lines.append(f"[{place}.2901 - {place}.7900]\t{name}\t{emotion}\t[2.5000, 2.5000, 2.5000]\n")
                lines.append(f"C-E2:\tNeutral;\t()\nA-M1:\tval  3; act  2; dom  {place};\t()\n\n")
                write_tone(session / "sentences" / "wav" / dialogue / f"{name}.wav", 300 + 200 * place, 0.4, place)
        labels = session / "dialog" / "EmoEvaluation"
        labels.mkdir(parents=True, exist_ok=True)
        (labels / f"{dialogue}.txt").write_text("".join(lines))
        (labels / f"._{dialogue}.txt").write_bytes(b"\x00\x05\x16\x07 a Mac left this")
        (labels / "Categorical").mkdir(exist_ok=True)
    return root
