"""Keyword detection on the device: blocks of sound in, keywords out."""

from auricle_edge.detect.detector import Detector
from auricle_edge.detect.figures import DetectFigures
from auricle_edge.detect.recognisers import Recognise, ensemble, recogniser
from auricle_edge.detect.settings import DetectSettings

__all__ = ["DetectFigures", "DetectSettings", "Detector", "Recognise", "ensemble", "recogniser"]
