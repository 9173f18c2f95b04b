"""Place many requests at once.

wishes     what is asked for, and the units that are placed all or not at all
problem    the same as numbers: slices of so many cubes, blocks with room for so many
fast       best fit, made better by filling each block exactly where its numbers allow it
exact      the optimum with HiGHS; the only module of the engine that knows a library
fair       whose turn it is
sorting    units as groups and bundles, and a solution as partitions
room       the fleet while it is being packed
terms      what is known of running slices and of requests: who may be ended, who ends when
evicting   room by ending running slices
promises   the time that is promised to the first who has to wait, and who may pass it
plan       class by class, from wishes to partitions
"""
