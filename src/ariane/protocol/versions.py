"""Names of the version numbers that peers send."""

from typing import Final

FIRST_V4: Final = 212  # V4_0_0_SNAPSHOT
LAST: Final = 611  # V5_9_9


def version_name(ordinal: int) -> str:
    """The name of a version number, as peers send it.

    >>> version_name(407), version_name(121), version_name(48)
    ('V4_9_7', 'V3_4_9', 'V3_1_1_SNAPSHOT')
    """
    ordinal = min(max(0, ordinal), LAST)
    snapshot = "" if ordinal % 2 else "_SNAPSHOT"
    if ordinal >= FIRST_V4:
        number = (ordinal - FIRST_V4) // 2
        return f"V{4 + number // 100}_{number // 10 % 10}_{number % 10}{snapshot}"
    if ordinal >= 86:
        number = (ordinal - 86) // 2
        return f"V3_{3 + number // 9}_{1 + number % 9}{snapshot}"
    if ordinal >= 46:
        number = (ordinal - 46) // 2
        return f"V3_{1 + number // 10}_{number % 10}{snapshot}"
    return f"V3_0_{max(0, (ordinal - 14) // 2)}{snapshot}"
