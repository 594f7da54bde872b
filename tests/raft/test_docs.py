"""The examples in the docstrings of the core run."""

import doctest
import importlib
import pkgutil

import pytest

import ariane.raft

MODULES = ["ariane.raft", *(f"ariane.raft.{module.name}" for module in pkgutil.iter_modules(ariane.raft.__path__))]


@pytest.mark.parametrize("module", MODULES)
def test_examples_of_the_core_run(module: str) -> None:
    assert doctest.testmod(importlib.import_module(module)).failed == 0
