"""Where labels come from: enrolment, a person's answers, and what the device is sure of by itself."""

from auricle_edge.labels.enrolment import Enrolment, Step
from auricle_edge.labels.keeping import Labelled
from auricle_edge.labels.labeller import Labeller
from auricle_edge.labels.settings import LabelSettings

__all__ = ["Enrolment", "LabelSettings", "Labelled", "Labeller", "Step"]
