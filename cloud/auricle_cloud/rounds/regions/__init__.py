"""Rounds of several coordinators together, each with the devices of its region: one model, and no update leaves one.

    member.py    at each region's coordinator: tells of its updates, answers questions about them, takes the model
    joint.py     where they meet: waits for the regions, asks them, makes the model (`auricle cloud regions`)
    seats.py     what is known of each region while it takes part
    messages.py  what the two say to each other

A region tells of each update what its device said of it (clips, loss, steps). Where they meet, the method runs over
all of these; the weighted sums and lengths that it needs of the updates themselves are asked of the regions, each of
its own (`auricle_learning.aggregation.matrix_parts`). Bounds and shares are so those of one large cohort.
"""
