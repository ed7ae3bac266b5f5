"""What cannot be measured quickly: an engine's figures, which `bench/fleet_growth.py` prints, and estimates."""

from __future__ import annotations

from msgspec import Struct

SOURCE = "bench/fleet_growth.py"
"""What printed them; the runs that they come from are in docs/fleet.md."""


class Constants(Struct, frozen=True, kw_only=True):
    """Of one engine."""

    links: bool
    """Whether devices have connections: through a broker, and relays where a network is emulated."""
    all_train: bool
    """Whether everybody invited trains, those whose answers will be too late as well."""
    base_memory: float
    """Bytes of a run of hardly any devices: Python, onnxruntime, graphs, the report at the end."""
    process_memory: float
    """Bytes of each process that trains beside the run's own, where it has any."""
    device_memory: float
    """Bytes of a device beyond its clips and what it has learnt."""
    states_room: float
    """Bytes of what devices have learnt that stay in memory at most; those that never trained have nothing then."""
    update_memory: float
    """Bytes of an answer while a round closes, in bytes of its weights as float32."""
    broker_memory: float
    """Bytes of the broker's process, without its devices."""
    broker_device: float
    """Bytes of the broker for each device."""
    client_seconds: float
    """CPU seconds of a client's round beyond training, of one core however many there are."""
    start_seconds: float
    """Seconds until the first round, without speech."""
    base_files: int
    """Open files of a run without devices."""
    device_files: float
    """Open files for each device."""
    broker_files: int
    """The broker's own."""
    sent_once: float
    """Bytes that a device sends once: registration and what else it says of itself."""
    received_once: float
    """Bytes that it receives once."""
    sent: float
    """Bytes that a device sends in a round besides weights: headers, signatures, topics."""
    received: float
    """Bytes that it receives in a round besides the model: invitation, acknowledgement, topics."""
    sent_asking: float
    """Bytes that a device sends each time it asks what is next, whether invited or not, every `ask_every` seconds."""
    received_asking: float
    """Bytes of the answer."""
    base_disk: float
    """Bytes of a run's folder besides devices and models."""
    states_kept: int
    """How many states of a device lie on the disk."""
    models_kept: int
    """How many models do at most, each with what the server's optimizer or the rule keeps for the next round."""
    weights_kept: int = 0
    """How many more do at most, without that."""
    device_disk: float
    """Bytes of a device's folder besides its states."""
    row_disk: float
    """Bytes that a device adds in each of its rounds: a row here and there."""


END_MEMORY = 100e6
"""Bytes of `base_memory` that only the end of a run takes: the report and the pack."""
FEATURE_MEMORY = 1.05e6
"""Bytes of a second of a clip while its features are computed."""
AT_ONCE = 256
"""Clips of the unseen whose features are computed at once, as `energy_rows` does; of a device all."""
RELAY_FILES = 3
"""Open files of the relay of a device that has a network of its own."""
OF_FEATURES = 8
"""Times that a run has what devices are lent to tune classifiers by in memory, as float32: two models' and a match's of
float64, what travels, and what a device tunes on. An estimate."""
SPOKEN = 0.012
"""CPU seconds in which a clip is synthesised: an estimate, as are `READ` and `start_seconds`."""
READ = 0.0006
"""CPU seconds in which a clip is read."""
