"""The broker of an emulated fleet: embedded, or mosquitto as a process."""
