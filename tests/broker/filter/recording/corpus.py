"""The expressions and property sets whose verdicts are recorded: written by hand for each rule, and made at random."""

from __future__ import annotations

import random
import re
from pathlib import Path

PROPERTY_SETS: list[dict[str, str]] = [
    {},
    {"a": "5"},
    {"a": "6", "b": "7"},
    {"a": "-5", "b": "x"},
    {"a": "5.5", "b": "5.5"},
    {"a": "abc", "b": "abc"},
    {"a": "", "b": ""},
    {"a": " 5 ", "b": " 6.5 "},
    {"a": "+5", "b": "005"},
    {"a": "2147483647", "b": "2147483648"},
    {"a": "-2147483648", "b": "-2147483649"},
    {"a": "9223372036854775807", "b": "9223372036854775808"},
    {"a": "true", "b": "FALSE"},
    {"a": "TrUe", "b": "yes"},
    {"a": "NaN", "b": "Infinity"},
    {"a": "-Infinity", "b": "-0.0"},
    {"a": "0", "b": "0.0"},
    {"a": "1e3", "b": "1000"},
    {"a": "5d", "b": "5f"},
    {"a": "0x1p3", "b": "0x10"},
    {"a": "٥", "b": "５"},
    {"a": "it's", "b": "'", "c": "null"},
    {"b": "5", "c": "5", "d": "5"},
    {"a": "5", "b": "5", "c": "true", "d": "x"},
    {"A": "5", "B": "x"},
    {"a": "1_000", "b": "1,000"},
    {"a": "1.7976931348623157E308", "b": "4.9E-324"},
    {"a": "1e400", "b": "1e-400"},
    {"a": "nan", "b": "infinity"},
    {"a": "0x1.8p1", "b": "0x.8p0d"},
    {"_x": "5", "$y": "x", "NOTa": "5", "TAGS": "TagA", "KEYS": "k1 k2"},
    {"a": "中文", "b": "😀"},
]

BY_HAND = Path(__file__).with_name("by_hand.txt")
ESCAPES = {"\\n": "\n", "\\r": "\r", "\\t": "\t", "\\f": "\f", "\\v": "\v"}


def by_hand() -> list[str]:
    """The hand-written expressions, one a line, for each rule of the language; also with blanks around them."""
    lines = BY_HAND.read_text(encoding="utf-8").split("\n")
    texts = [re.sub(r"\\[nrtfv]", lambda match: ESCAPES[match.group()], line) for line in lines]
    return [*texts, *(f" {text}" for text in texts[:40]), *(f"{text} " for text in texts[:40])]


def at_random(count: int, seed: int) -> list[str]:
    """Expressions of the grammar with all kinds of operands in all places, most of them valid."""
    return [_Maker(random.Random(f"{seed}/{number}")).condition(3) for number in range(count)]


def broken(expressions: list[str], count: int, seed: int) -> list[str]:
    """The same with a few characters or words lost, doubled or swapped."""
    source = random.Random(seed)
    return [_break(source, source.choice(expressions)) for _ in range(count)]


def _break(source: random.Random, text: str) -> str:
    words = text.split(" ")
    place = source.randrange(len(words))
    action = source.randrange(4)
    if action == 0:
        del words[place]
    elif action == 1:
        words.insert(place, source.choice(words))
    elif action == 2:
        words.insert(place, source.choice(["AND", "NOT", "(", ")", "=", "'", "5", "a", "IS NULL", "#", "--", ","]))
    else:
        words[place] = words[place][::-1]
    return " ".join(words)


class _Maker:
    def __init__(self, source: random.Random) -> None:
        self.source = source

    def condition(self, depth: int) -> str:
        makers = [self.comparison, self.comparison, self.ordering, self.between, self.membership, self.null_check]
        if depth > 0:
            makers += [lambda: self.joined(depth)] * 4 + [lambda: f"NOT ({self.condition(depth - 1)})"]
        return self.source.choice(makers)()

    def joined(self, depth: int) -> str:
        word = self.source.choice(["AND", "OR", "and", "or"])
        parts = [self.condition(depth - 1) for _ in range(self.source.randint(2, 3))]
        text = f" {word} ".join(parts)
        return f"({text})" if self.source.random() < 0.5 else text

    def operand(self) -> str:
        return self.source.choice([self.name, self.name, self.number, self.text, self.word])()

    def name(self) -> str:
        return self.source.choice("abcd")

    def number(self) -> str:
        kinds = ["0", "1", "5", "6", "7", "5l", "5.5", "1e3", "2147483647", "2147483648", "9223372036854775807", "1.0"]
        return self.source.choice(["", "", "", "-", "+"]) + self.source.choice(kinds)

    def text(self) -> str:
        return self.source.choice(["'5'", "'abc'", "'x'", "''", "'true'", "'5.5'", "'it''s'"])

    def word(self) -> str:
        return self.source.choice(["TRUE", "FALSE", "true", "NULL"]) if self.source.random() < 0.5 else self.name()

    def comparison(self) -> str:
        return f"{self.operand()} {self.source.choice(['=', '<>'])} {self.operand()}"

    def ordering(self) -> str:
        right = self.source.choice([self.number, self.name])()
        left = self.source.choice([self.number, self.name, self.name])()
        return f"{left} {self.source.choice(['<', '<=', '>', '>='])} {right}"

    def between(self) -> str:
        word = self.source.choice(["BETWEEN", "NOT BETWEEN"])
        return f"{self.name()} {word} {self.source.choice([self.number, self.name])()} AND {self.number()}"

    def membership(self) -> str:
        texts = ", ".join(self.text() for _ in range(self.source.randint(1, 6)))
        return f"{self.name()} {self.source.choice(['IN', 'NOT IN'])} ({texts})"

    def null_check(self) -> str:
        return f"{self.operand()} {self.source.choice(['IS NULL', 'IS NOT NULL'])}"
