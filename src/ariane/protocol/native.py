"""Machine integers and functions that read and write them, for the compiled modules.

In plain Python the integers are ordinary ones. The compiler needs the types only; at run time nothing of it is needed,
and where `librt` is not installed, as with a plain client, the functions are not used.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

T = TypeVar("T")

if TYPE_CHECKING:
    from librt.strings import BytesWriter as BytesWriter
    from librt.strings import read_i32_be as read_i32_be
    from librt.strings import read_i64_be as read_i64_be
    from librt.strings import read_i64_le as read_i64_le
    from mypy_extensions import i16 as i16
    from mypy_extensions import i32 as i32
    from mypy_extensions import i64 as i64
    from mypy_extensions import mypyc_attr as mypyc_attr
    from mypy_extensions import u8 as u8
else:
    try:
        from librt.strings import BytesWriter, read_i32_be, read_i64_be, read_i64_le
    except ImportError:
        BytesWriter = bytearray
        read_i32_be = read_i64_be = read_i64_le = None
    i16 = i32 = i64 = u8 = int

    def mypyc_attr(**_: object) -> Callable[[T], T]:
        """What the compiler shall know of a class; `acyclic` says that the garbage collector need not look at it."""
        return lambda decorated: decorated
