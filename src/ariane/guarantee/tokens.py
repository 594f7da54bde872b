"""Tokens in Redis or Valkey. A cache that does not answer is left alone for a while; the database decides then."""

import logging
import time
from typing import Any, Protocol

log = logging.getLogger("ariane.guarantee")

TIMEOUT = 1.0
AWAY = 5.0  # seconds until a cache that failed is asked again
# The client must not try a SET again by itself: the second would find the token of the first and call it lost.
# Only the owner deletes a token: after its lease it may be another's.
_RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0"


class Tokens(Protocol):
    """Tokens for threads."""

    def acquire(self, key: str, owner: str, seconds: float | None) -> bool | None: ...

    def release(self, key: str, owner: str) -> None: ...

    def close(self) -> None: ...


class AsyncTokens(Protocol):
    """Tokens for asyncio."""

    async def acquire(self, key: str, owner: str, seconds: float | None) -> bool | None: ...

    async def release(self, key: str, owner: str) -> None: ...

    async def close(self) -> None: ...


class _Reachable:
    """Remembers that a cache failed, for a while."""

    def __init__(self) -> None:
        self._away_until = 0.0

    @property
    def away(self) -> bool:
        return time.monotonic() < self._away_until

    def failed(self, error: Exception) -> None:
        self._away_until = time.monotonic() + AWAY
        log.warning("the cache does not answer, the database decides for the next %g s: %s", AWAY, error)


class RedisTokens:
    """Tokens in Redis, for threads."""

    def __init__(self, url: str) -> None:
        import redis
        from redis.backoff import NoBackoff
        from redis.retry import Retry

        self._errors = (redis.RedisError, OSError)
        self._redis: Any = redis.Redis.from_url(
            url, socket_timeout=TIMEOUT, socket_connect_timeout=TIMEOUT, retry=Retry(NoBackoff(), 0)
        )
        self._reachable = _Reachable()

    def acquire(self, key: str, owner: str, seconds: float | None) -> bool | None:
        """Take a token for so many seconds, or without end; None when the cache does not answer."""
        if self._reachable.away:
            return None
        try:
            return bool(self._redis.set(key, owner, nx=True, px=None if seconds is None else int(seconds * 1000)))
        except self._errors as error:
            self._reachable.failed(error)
            return None

    def release(self, key: str, owner: str) -> None:
        """Delete a token, if it is the owner's."""
        if self._reachable.away:
            return
        try:
            self._redis.eval(_RELEASE, 1, key, owner)
        except self._errors as error:
            self._reachable.failed(error)

    def close(self) -> None:
        """Close the connections."""
        self._redis.close()


class AsyncRedisTokens:
    """Tokens in Redis, for asyncio."""

    def __init__(self, url: str) -> None:
        import redis.asyncio
        from redis.asyncio.retry import Retry
        from redis.backoff import NoBackoff

        self._errors = (redis.RedisError, OSError)
        self._redis: Any = redis.asyncio.Redis.from_url(
            url, socket_timeout=TIMEOUT, socket_connect_timeout=TIMEOUT, retry=Retry(NoBackoff(), 0)
        )
        self._reachable = _Reachable()

    async def acquire(self, key: str, owner: str, seconds: float | None) -> bool | None:
        """Take a token for so many seconds, or without end; None when the cache does not answer."""
        if self._reachable.away:
            return None
        try:
            return bool(await self._redis.set(key, owner, nx=True, px=None if seconds is None else int(seconds * 1000)))
        except self._errors as error:
            self._reachable.failed(error)
            return None

    async def release(self, key: str, owner: str) -> None:
        """Delete a token, if it is the owner's."""
        if self._reachable.away:
            return
        try:
            await self._redis.eval(_RELEASE, 1, key, owner)
        except self._errors as error:
            self._reachable.failed(error)

    async def close(self) -> None:
        """Close the connections."""
        await self._redis.aclose()
