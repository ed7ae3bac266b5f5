"""Keyword detection on the device: blocks of sound in, keywords out."""

from auricle_edge.listening.detect.detector import Detector
from auricle_edge.listening.detect.figures import DetectFigures
from auricle_edge.listening.detect.recognisers import Cascade, Recognise, ensemble
from auricle_edge.listening.detect.rules import detect_settings
from auricle_edge.listening.detect.settings import DetectSettings, DetectTable

__all__ = [
    "Cascade",
    "DetectFigures",
    "DetectSettings",
    "DetectTable",
    "Detector",
    "Recognise",
    "detect_settings",
    "ensemble",
]
