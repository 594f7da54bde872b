"""Machine integers for the modules that are compiled; plain Python takes them for ordinary ones.

It stands alone because the compiler knows the name by its type, while nothing of the compiler is needed at run time.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mypy_extensions import i16 as i16
    from mypy_extensions import i32 as i32
    from mypy_extensions import i64 as i64
else:
    i16 = i32 = i64 = int
