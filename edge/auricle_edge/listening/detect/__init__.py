"""Keyword detection on the device: blocks of sound in, keywords out."""

from typing import TYPE_CHECKING

from auricle.promised import promised

if TYPE_CHECKING:
    from auricle_edge.listening.detect.detector import Detector
    from auricle_edge.listening.detect.recognisers import Cascade, Recognise, ensemble
    from auricle_edge.listening.detect.rules import detect_settings
    from auricle_edge.listening.detect.settings import DetectSettings, DetectTable
    from auricle_edge.listening.listening_status import DetectFigures

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

if not TYPE_CHECKING:  # settings are read by commands that detect nothing
    __getattr__, __dir__ = promised(
        __name__,
        {
            "Detector": "auricle_edge.listening.detect.detector",
            "DetectFigures": "auricle_edge.listening.listening_status",
            **dict.fromkeys(("Cascade", "Recognise", "ensemble"), "auricle_edge.listening.detect.recognisers"),
            "detect_settings": "auricle_edge.listening.detect.rules",
            **dict.fromkeys(("DetectSettings", "DetectTable"), "auricle_edge.listening.detect.settings"),
        },
    )
