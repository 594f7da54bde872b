"""The business guarantee: a message that is staged with a database change is neither lost nor done twice.

stub, log: the two tables; outbox: staging in the user's session; idempotence: the way of a received message; resend:
finding lost messages; notify: calling a person; operate: what that person does; retention; migrations. `Guarantee` is
for threads, `ariane.guarantee.aio.Guarantee` for asyncio.
"""

from ariane.errors import GuaranteeError
from ariane.extras import extra

with extra("guarantee", "ariane.guarantee"):
    from ariane.guarantee.idempotence import Outcome, Rejected, Settlement
    from ariane.guarantee.notify import Mail, Notice
    from ariane.guarantee.operate import Inspection
    from ariane.guarantee.options import GuaranteeOptions, Idempotence
    from ariane.guarantee.outbox import ID_PROPERTY
    from ariane.guarantee.resend import Pass
    from ariane.guarantee.stub import Stub
    from ariane.guarantee.tables import StubStatus, metadata
    from ariane.guarantee.threads import Guarantee

__all__ = [
    "ID_PROPERTY",
    "Guarantee",
    "GuaranteeError",
    "GuaranteeOptions",
    "Idempotence",
    "Inspection",
    "Mail",
    "Notice",
    "Outcome",
    "Pass",
    "Rejected",
    "Settlement",
    "Stub",
    "StubStatus",
    "metadata",
]
