"""A small part of `make fuzz`, with a fixed seed: every decoder, and a broker process."""

import pytest

from tests.fuzz.decoders import targets
from tests.fuzz.live import attack
from tests.fuzz.runner import run

INPUTS = 6000
FRAMES = 5000


@pytest.mark.parametrize("name", targets())
def test_no_input_breaks_a_decoder(name: str) -> None:
    run(name, targets()[name], INPUTS, seed=1)


def test_a_broker_under_fire_serves_a_normal_client() -> None:
    assert f"{FRAMES} frames" in attack(FRAMES, seed=1)
