"""Both kinds of broker, where they are installed."""

from __future__ import annotations

from importlib.util import find_spec

import pytest
from tests.system.conftest import pytest_pyfunc_call as pytest_pyfunc_call

from auricle.mqtt_link.mosquitto_program import find_mosquitto
from auricle_fleet.broker.broker import Kind


@pytest.fixture(params=["mosquitto", "amqtt"])
def kind(request: pytest.FixtureRequest) -> Kind:
    if not (find_mosquitto() if request.param == "mosquitto" else find_spec("amqtt")):
        pytest.skip(f"{request.param} is not installed")
    kind: Kind = request.param
    return kind
