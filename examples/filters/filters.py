"""Try a filter without a broker: which of these messages does the module deliver?

python filters.py gold.wat        # or gold.wasm; needs ariane[wasm]
"""

import sys
import time
from pathlib import Path

from wasmtime import wat2wasm

from ariane.filter.wasm import SandboxLimits
from ariane.filter.wasm.sandbox import Sandbox, compile_and_try

MESSAGES = [
    (b"tier\x01gold\x02KEYS\x01a\x02", b"{}"),
    (b"tier\x01silver\x02", b'{"urgent":true}'),
    (b"tier\x01silver\x02", b"{}"),
    (b"", b""),
]

path = Path(sys.argv[1])
module = path.read_bytes()
if path.suffix == ".wat":
    module = bytes(wat2wasm(module))
sandbox = Sandbox(SandboxLimits())
sandbox.load("filter", compile_and_try(module, sandbox.limits))
wanted = sandbox.new_filter("filter", time.monotonic)
for properties, body in MESSAGES:
    print("delivered" if wanted.matches(properties, body) else "skipped", properties, body)
sandbox.close()
