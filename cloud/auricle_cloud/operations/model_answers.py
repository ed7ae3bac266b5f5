"""What operators are told about models."""

from __future__ import annotations

from auricle.process.times import Time
from auricle_cloud.operations.answer import Answer


class ModelRow(Answer, frozen=True, kw_only=True):
    """A version of the model."""

    task: str
    version: int
    current: bool
    blob: str
    """SHA-256 of its weights as float32."""
    origin: str
    """first, round, or repair."""
    round: int | None
    parent: int | None
    created: Time
    accuracy: float | None
    """On the operator's validation set, 0 to 1."""
    loss: float | None


class ModelPage(Answer, frozen=True, kw_only=True):
    """The newest models first."""

    models: list[ModelRow]
    next: int | None
    """Give it as `before` for the next page."""


class Judged(Answer, frozen=True, kw_only=True):
    """How good a model is on a validation set."""

    version: int
    accuracy: float
    loss: float
    clips: int
    kept: bool
    """Whether it was written to the model's row."""

    @property
    def done(self) -> str:
        """It in one sentence."""
        kept = ", and that is kept" if self.kept else ""
        return (
            f"Version {self.version}: accuracy {self.accuracy:.4f}, loss {self.loss:.4g} on {self.clips} clips{kept}."
        )
