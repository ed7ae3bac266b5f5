"""The virtual engine: devices without links, on a clock that only counts."""
