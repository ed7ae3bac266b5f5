"""A satellite of Home Assistant's Assist: ESPHome's native API, a run from wake word to answer, and its loudspeaker."""
