"""What a forecast cannot measure quickly, of every engine alike: estimates. What differs is in `Constants`."""

from __future__ import annotations

SOURCE = "bench/fleet_growth.py"
"""What printed them; the runs that they come from are in docs/fleet.md."""
END_MEMORY = 100e6
"""Bytes of `base_memory_bytes` that only the end of a run takes: the report and the pack."""
FEATURE_MEMORY = 1.05e6
"""Bytes of a second of a clip while its features are computed."""
AT_ONCE = 256
"""Clips of the unseen whose features are computed at once, as `energy_rows` does; of a device all."""
RELAY_FILES = 3
"""Open files of the relay of a device that has a network of its own."""
OF_FEATURES = 8
"""Times that a run has what devices are lent to tune classifiers by in memory, as float32: two models' and a match's of
float64, what travels, and what a device tunes on. An estimate."""
SPOKEN_SECONDS = 0.012
"""CPU seconds in which a clip is synthesised: an estimate, as are `READ` and `start_seconds`."""
READ = 0.0006
"""CPU seconds in which a clip is read."""
