"""Where labels come from: enrolment, a person's answers, and what the device is sure of by itself."""

from typing import TYPE_CHECKING

from auricle.promised import promised

if TYPE_CHECKING:
    from auricle_edge.labels.enrolment import Enrolment, Step
    from auricle_edge.labels.keeping import Labelled
    from auricle_edge.labels.labeller import Labeller
    from auricle_edge.labels.settings import LabelSettings

__all__ = ["Enrolment", "LabelSettings", "Labelled", "Labeller", "Step"]

if not TYPE_CHECKING:  # settings are read by commands that label nothing
    __getattr__, __dir__ = promised(
        __name__,
        {
            **dict.fromkeys(("Enrolment", "Step"), "auricle_edge.labels.enrolment"),
            "Labelled": "auricle_edge.labels.keeping",
            "Labeller": "auricle_edge.labels.labeller",
            "LabelSettings": "auricle_edge.labels.settings",
        },
    )
