"""The index of keys: `index` is all its files, `index_file` one of them, `repair` opens and repairs them."""

from ariane.store.index.index import Index, hashes_of, name_at
from ariane.store.index.index_file import IndexFile

__all__ = ["Index", "IndexFile", "hashes_of", "name_at"]
