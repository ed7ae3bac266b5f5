"""The live engine: a broker, the coordinator and the devices' agents, with real links between them."""
