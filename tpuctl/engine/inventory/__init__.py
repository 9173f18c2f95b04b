"""An index over one fleet from which placement is answered in constant time.

obstacles   why a cube or a partition cannot be taken
counting    counted reasons, block by block
shelves     blocks by number of free cubes; cubes by how full they are
tiers       free cubes for requests that take degraded ones: those first, what will go away last
leaving     what takes a cube away with everything in it
tree        the partitions inside one cube, as the fleet names them
entries     one cube: who has what of it, and where it stands for sub-slices
stock       the index itself: built once from a Fleet, then changed by taking, releasing, failing, repairing
recent      the index of a snapshot, remembered while the snapshot lives
"""
