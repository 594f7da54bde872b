"""The term of every entry of a log, stored compactly as runs: terms never decrease."""

from bisect import bisect_right
from collections.abc import Callable


class Terms:
    """Terms by index. The index before the first entry has a term too, for comparison.

    >>> terms = Terms(first=0, previous_term=-1)
    >>> for index, term in enumerate([1, 1, 4, 4, 4]):
    ...     terms.append(index, term)
    >>> terms.at(1), terms.at(2), terms.at(5), terms.last_at_most(4, 3)
    (1, 4, None, 1)
    """

    def __init__(self, first: int, previous_term: int) -> None:
        self._starts = [first - 1]  # the first index of each run; the first run begins before the first entry
        self._terms = [previous_term]
        self.last = first - 1

    @classmethod
    def search(cls, first: int, previous_term: int, last: int, term_at: Callable[[int], int]) -> "Terms":
        """Find the runs of a stored log: by binary search per run instead of reading each entry."""
        terms = cls(first, previous_term)
        index = first
        while index <= last:
            term = term_at(index)
            low, high = index, last  # the run's last index is in here
            while low < high:
                middle = (low + high + 1) // 2
                if term_at(middle) == term:
                    low = middle
                else:
                    high = middle - 1
            terms.append(index, term)
            terms.last = low
            index = low + 1
        return terms

    def at(self, index: int) -> int | None:
        """Return the term at `index`; None outside of the log."""
        if not self._starts[0] <= index <= self.last:
            return None
        return self._terms[bisect_right(self._starts, index) - 1]

    def last_at_most(self, index: int, term: int) -> int:
        """Return the highest index up to `index` whose term is at most `term`, or the index before the first entry."""
        index = min(index, self.last)
        run = bisect_right(self._starts, index) - 1
        if run < 0:
            return index  # before all known runs
        while run >= 0 and self._terms[run] > term:
            index = self._starts[run] - 1
            run -= 1
        return max(index, self._starts[0])

    def append(self, index: int, term: int) -> None:
        """Add the next entry's term."""
        assert index == self.last + 1, f"entry {index} does not follow {self.last}"
        assert term >= self._terms[-1], f"term {term} follows {self._terms[-1]}"
        if term != self._terms[-1] or len(self._terms) == 1:
            self._starts.append(index)
            self._terms.append(term)
        self.last = index

    def truncate(self, index: int) -> None:
        """Remove `index` and everything after it."""
        while self._starts[-1] >= index:
            self._starts.pop()
            self._terms.pop()
        self.last = index - 1

    def forget(self, first: int) -> None:
        """Remove everything before `first`, except the term of the index before it."""
        previous_term = self.at(first - 1)
        assert previous_term is not None, f"{first - 1} is not in the log"
        keep = bisect_right(self._starts, first)  # runs that begin after `first`
        next_term = self.at(first)
        self._starts = [first - 1, *([first] if next_term is not None else []), *self._starts[keep:]]
        self._terms = [previous_term, *([next_term] if next_term is not None else []), *self._terms[keep:]]
