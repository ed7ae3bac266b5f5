"""Writing an image to a card or disk, never to one that the system uses."""
