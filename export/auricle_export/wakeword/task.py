"""What an own wake word is made of: phrases, voices, recordings, the commands after it, and for how long it trains."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING
from unicodedata import category

from msgspec import UNSET

from auricle.errors import PackError, SettingsError
from auricle.packs.manifest import JOINERS, LONGEST_LABEL, SILENCE, SPECIAL_LABELS, UNKNOWN, is_label
from auricle.packs.pack import Pack, load_pack
from auricle.speech.clip_folder import refuse_both_roles
from auricle.speech.spelling import small_letters
from auricle.speech.synthesis import MOST_SPEAKERS
from auricle.wire.kinds import plain
from auricle_export.pretrain.recipe import refuse_twice
from auricle_export.pretrain.settings import LiveSettings
from auricle_export.pretrain.window_settings import WindowSettings
from auricle_export.voices.interface import VoiceSource
from auricle_export.wakeword.voices_sound import VOICES

if TYPE_CHECKING:
    from auricle_export.packs.network import Frozen

BASE = "gsc12-res"
"""The pack whose weights a wake word begins with, where no command comes after it: it heard a thousand people."""
MODEL = "resnet-lite"
"""The model that is trained."""
INSIDE = f"-'’{JOINERS}"
"""Signs that stand inside of words."""
ONE_NETWORK = "--frontend puts the model over a network, where --vote puts a second one: leave one of the two out."
RATE_PER_HOUR = 0.5
"""False accepts an hour that are allowed for each phrase."""
TRAIN_EPOCHS = 16
WINDOWS = WindowSettings(
    keywords=0.4,
    synthetic=0.5,
    outside=0.2,
    alike=0.22,
    running=0.33,
    cut=0.1,
    noise_only=0.1,
    tempo=0.25,
    warp=0.18,
    masks=0.5,
)
"""What training windows draw: voices are stretched more, in time and over the bands, since they differ less than
people do."""


def usual_settings() -> LiveSettings:
    """How a wake word is trained where nothing else is asked for."""
    return LiveSettings(epochs=TRAIN_EPOCHS, windows=WINDOWS)


def head_settings() -> LiveSettings:
    """How a head over a frozen network is trained where nothing else is asked for.

    A window costs little once the network heard it, so that batches are large, and three quarters of each are of sound
    without the phrase: of that there is most, and it is what a head is wrong about.
    """
    windows = replace(WINDOWS, newest=1.0, crowd=0.5)
    return LiveSettings(epochs=TRAIN_EPOCHS, steps=250, batch=512, rate=2e-3, alone=0.75, windows=windows)


@dataclass(frozen=True)
class WakeTask:
    """One or more phrases, and what they are learnt from."""

    phrases: tuple[str, ...]
    folder: Path
    """Keeps an interrupted training."""
    language: str = "en"
    """Of the voices."""
    speakers: int = VOICES
    """Synthetic voices at most."""
    sources: tuple[VoiceSource, ...] = ()
    """Other voices, which speak beside espeak-ng's."""
    rate: float = RATE_PER_HOUR
    """False accepts an hour that are allowed for each phrase."""
    commands: str | None = None
    """A pack whose words come after the phrase; None: nothing does."""
    takes: tuple[Path, ...] = ()
    """Folders or lists of takes of the phrases: recordings, or other voices."""
    words: tuple[Path, ...] = ()
    """Folders of single words by people; commands among them are trained on."""
    running: tuple[Path, ...] = ()
    languages: tuple[Path, ...] = ()
    noise: tuple[Path, ...] = ()
    leave_out: tuple[Path, ...] = ()
    """Folders of single words whose speakers are heard in no part."""
    frozen: Frozen | None = None
    """A network whose vectors are learnt from; None: log-mels are."""
    vote: Frozen | None = None
    """A network over whose vectors a second model votes beside the plug-in; None: none does."""
    speaker: str = ""
    """Who says the takes that name nobody; empty: each a speaker of its own."""
    settings: LiveSettings = field(default_factory=usual_settings)
    head: LiveSettings = field(default_factory=head_settings)
    """How a head over a frozen network is trained; draws of voices and parts are those of `settings`."""

    def __post_init__(self) -> None:
        """Refuse what is not a phrase, and rates that cannot be meant."""
        if not self.phrases:
            raise SettingsError('Name the phrase to listen for, as in auricle export wakeword "hey robot".')
        for place, phrase in enumerate(self.phrases):
            refuse_phrase(phrase)
            if phrase in self.phrases[:place]:
                raise SettingsError(f'The phrase "{phrase}" is named twice: name it once.')
        if not 1 <= self.speakers <= MOST_SPEAKERS:
            raise SettingsError(f"--speakers is {self.speakers}: it has to be 1 to {MOST_SPEAKERS:,}.")
        if not (math.isfinite(self.rate) and 0.05 <= self.rate <= 20):
            raise SettingsError(f"--rate is {self.rate:g}: it has to be 0.05 to 20 false accepts an hour.")
        if self.frozen is not None and self.vote is not None:
            raise SettingsError(ONE_NETWORK)
        refuse_both_roles((*self.takes, *self.words), self.languages)
        for folders in (self.takes, self.words, self.running, self.languages, self.noise):
            refuse_twice(folders)

    def base(self) -> Pack:
        """The pack whose weights the training begins with.

        Raises
        ------
        PackError
            There is no such pack, it lacks weights of the model, or it holds one of the phrases already.
        """
        pack = load_pack(BASE if self.commands is None else self.commands)
        if MODEL not in pack.manifest.start or pack.manifest.plugin != MODEL:
            raise PackError(
                f"The pack {pack.manifest.name} has no trained {MODEL} as plug-in, which a wake word begins with: take "
                "home, home-more, gsc12-res, or a pack that was trained from one of them."
            )
        if pack.manifest.task.frontend != load_pack(BASE).manifest.task.frontend:
            raise PackError(
                f"The pack {pack.manifest.name} has another front-end than {BASE}: take one that has the same."
            )
        for phrase in self.phrases:
            if phrase in self.words_after(pack):
                raise PackError(f'"{phrase}" is a command of the pack {pack.manifest.name}: name another phrase.')
        return pack

    def words_after(self, base: Pack) -> tuple[str, ...]:
        """The commands that come after the phrases: the words of the named pack but its own wake words."""
        if self.commands is None:
            return ()
        listening = base.manifest.listening
        wake = () if listening is UNSET else listening.wake
        return tuple(word for word in base.labels if word not in SPECIAL_LABELS and word not in wake)


def refuse_phrase(phrase: str) -> None:
    """Refuse what no voice can say or no pack can hold.

    Raises
    ------
    SettingsError
        The sentence says what to write, which is then accepted.
    """
    usual = usual_phrase(phrase)
    if usual and phrase == usual:
        return
    hint = f'write "{usual}"' if usual else 'name words of letters, as in "hey robot"'
    shown = plain(phrase if len(phrase) <= LONGEST_LABEL else f"{phrase[:LONGEST_LABEL]}...")
    raise SettingsError(
        f'"{shown}" is not a valid phrase, which has small letters, single spaces and at most {LONGEST_LABEL} '
        f"characters: {hint}."
    )


def usual_phrase(text: str) -> str:
    """A phrase as a pack holds it: small letters, single spaces, no sign but hyphens and apostrophes inside of words.

    Empty where it has no letter, or more than a label may have.
    """
    kept = (sign if sign in INSIDE or category(sign)[0] in "LMN" else " " for sign in small_letters(text))
    words = (word.strip(INSIDE) for word in "".join(kept).split())
    phrase = " ".join(filter(None, words))
    return phrase if any(sign.isalpha() for sign in phrase) and is_label(phrase) else ""


def labels_of(phrases: Sequence[str], commands: Sequence[str]) -> tuple[str, ...]:
    """Labels of the pack: phrases, commands, and what is neither."""
    return (*phrases, *commands, UNKNOWN, SILENCE)


def name_of(phrases: Sequence[str]) -> str:
    """The pack's name: the first phrase, in small Latin letters, digits and hyphens."""
    name = re.sub(r"[^a-z0-9]+", "-", phrases[0]).strip("-")
    return name[:40] or "wake-word"
