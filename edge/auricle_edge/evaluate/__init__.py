"""How well a device hears: recordings composed into streams, heard by the detector's own parts, and a report."""
