"""How well a model hears, judged on composed streams: scenes, the rule of detection, curves, intervals, splits."""
