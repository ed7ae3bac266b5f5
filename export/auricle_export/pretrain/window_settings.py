"""From what each training window draws."""

from __future__ import annotations

from dataclasses import dataclass, fields

from auricle_export.pretrain.acoustics import Range

LEAD_FRAMES = 30
"""Frames before the window that are put together too: a room carries them into it. An earlier second window of a pair
has so many fewer of them as it is earlier."""


ENDED_FRAMES = 25
"""Frames within which a keyword has just ended: some three hops of a front-end that steps by 80 ms, so that a detector
which averages over as many windows sees whole ones."""
_LATER = ("newest", "crowd", "crowd_db")
"""Fields that states of before do not know."""


@dataclass(frozen=True)
class WindowSettings:
    """From what each window draws; every value is uniform in its range, times are in frames of 10 ms."""

    keywords: float = 0.5
    """Share of windows with a keyword."""
    synthetic: float = 0.35
    """Share of the keywords that espeak says."""
    outside: float = 0.12
    """Share of a keyword that may lie outside the window."""
    shift: Range = (0, 0)
    """How much earlier a second window of the same sound begins; both have the same label. (0, 0): no second window."""
    newest: float = 0.0
    """Share of the keywords that have just ended, `ENDED_FRAMES` frames before their window's end at most. Of 1, a
    window in which a keyword lies early, or outside for the most part, is never one with its label."""
    noise_only: float = 0.16
    """Of the windows without a keyword: nobody speaks."""
    running: float = 0.27
    """Running speech."""
    together: float = 0.0
    """Share of the running speech that is single words, one straight after the other: fewer false accepts in dense
    speech, and fewer hits at a rate of five an hour."""
    cut: float = 0.15
    """A keyword of which less than `visible` is in the window."""
    alike: float = 0.16
    """Words that sound like a keyword, and other languages, by espeak. The rest are other words by people."""
    visible: float = 0.45
    backwards: float = 0.25
    """Share of the sounds without a keyword that are played backwards."""
    mined: float = 0.5
    """Share of them that are drawn by how much a model mistook them, once it was asked."""
    before: float = 0.5
    """Share of the words with something said before them."""
    after: float = 0.35
    gap: Range = (2, 35)
    """Between a word and what comes before or after it."""
    neighbour_db: Range = (-6, 4)
    led: float = 0.15
    """Share of the keywords that a greeting or a wake word comes before, where there are wake words."""
    led_gap: Range = (-3, 30)
    tempo: float = 0.15
    """Largest relative change of speed."""
    warp: float = 0.1
    """Largest relative stretch of the mel axis."""
    babble: float = 0.3
    """Share of windows with somebody else speaking in the background."""
    babble_db: Range = (3, 22)
    crowd: float = 0.0
    """Share of windows with several others speaking at once in the background."""
    crowd_db: Range = (0, 20)
    """Of the word over all of them together."""
    noise: float = 0.85
    """Share of windows with noise."""
    second_noise: float = 0.15
    snr_db: Range = (-3, 25)
    """Of the word over the noise."""
    made: float = 0.4
    """Share of the noises that are made up (`NoiseMaker`), not recorded."""
    room: float = 0.4
    """Share of windows with an echo."""
    decay: Range = (0.15, 0.8)
    """Seconds in which it falls by 60 dB."""
    direct_db: Range = (-2, 12)
    tilt_db: float = 8
    gain_db: Range = (-18, 10)
    masks: float = 0.35
    """Share of windows with a hidden stretch and a hidden band."""

    @property
    def text(self) -> str:
        """All of them for a training's state: what states of before do not know only where it is not as usual."""
        usual = {field.name: field.default for field in fields(self) if field.name in _LATER}
        named = ((field.name, getattr(self, field.name)) for field in fields(self))
        said = [
            f"{name}={value!r}"
            for name, value in named
            if (name not in usual or value != usual[name]) and (name != "shift" or value[1])
        ]
        return f"WindowSettings({', '.join(said)})"
