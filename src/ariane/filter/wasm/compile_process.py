"""The process that compiles one module: reads it from standard input, writes the machine code or the reason against it.

`python -m ariane.filter.wasm.compile_process '{"fuel": 5000000, ...}'` with the fields of `SandboxLimits`.
"""

import json
import sys

from ariane.filter.wasm.limits import SandboxLimits
from ariane.filter.wasm.module import InvalidModule

ACCEPTED = b"+"
REFUSED = b"-"


def main() -> None:
    """Limit this process, then compile."""
    limits = SandboxLimits(**json.loads(sys.argv[1]))
    module = sys.stdin.buffer.read(limits.module_bytes + 1)
    # Loaded before the limits apply: a failed import is not the module's fault.
    from ariane.filter.wasm.sandbox import compile_and_try

    _limit(limits)
    try:
        result = ACCEPTED + compile_and_try(module, limits)
    except InvalidModule as error:
        result = REFUSED + str(error).encode()
    sys.stdout.buffer.write(result)


def _limit(limits: SandboxLimits) -> None:
    try:
        import resource
    except ImportError:  # not on Windows: there the parent's timeout alone holds
        return
    used = resource.getrusage(resource.RUSAGE_SELF)
    seconds = round(used.ru_utime + used.ru_stime) + limits.compile_seconds
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_DATA, (limits.compile_bytes, limits.compile_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


if __name__ == "__main__":
    main()
