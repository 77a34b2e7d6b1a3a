"""What a row says of one alternative: the codes every kernel branches on.

A row tells of each alternative one of eight things. `OBSERVED`: its outcome was recorded.
`BELOW` and `ABOVE`: it was not, so it lies on one known side of a limit. `BETWEEN`: it lies
between two limits. `UNKNOWN`: the row is silent about it (the alternative was not available,
or the rule lets its outcome be anything). `MAYBE`: the recorded outcome may be its own; if not,
its outcome lies on the side of it that the rule discards. `EITHER`: its outcome lies on one side
of the recorded one, and which side is not known. `INSIDE`: all such outcomes of the row lie,
together, in the set that explains its choice.
"""

from typing import Final

OBSERVED: Final = 0
BELOW: Final = 1
ABOVE: Final = 2
BETWEEN: Final = 3
UNKNOWN: Final = 4
MAYBE: Final = 5
EITHER: Final = 6
INSIDE: Final = 7
