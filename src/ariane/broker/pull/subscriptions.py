"""From what a consumer subscribes to, to the filter that the store asks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ariane.broker.send.target import FAQ
from ariane.errors import ResponseError
from ariane.filter import (
    SQL92,
    ExpressionCompiler,
    FilterBusy,
    FilterSyntaxError,
    MatchAll,
    RetryFilter,
    TagFilter,
    is_tag_type,
)
from ariane.filter import MessageFilter as PropertyFilter
from ariane.message import RETRY_PREFIX
from ariane.protocol.bodies import ALL_TAGS, SubscriptionData, SubscriptionGroupConfig
from ariane.protocol.codes import ResponseCode
from ariane.protocol.fast.pulling import PullKind
from ariane.protocol.properties import decode_properties
from ariane.store.results import MessageFilter

if TYPE_CHECKING:
    from ariane.broker.server import Broker

_MOST_KEPT = 1024


class StoredPropertiesFilter:
    """A filter on properties, given the bytes that the store has."""

    def __init__(self, inner: PropertyFilter) -> None:
        self._inner = inner
        self.needs_properties = inner.needs_properties
        self.matches_code = inner.matches_code

    def matches_message(self, properties: bytes) -> bool:
        if not self.needs_properties:
            return True
        return self._inner.matches_message(decode_properties(properties.decode(errors="replace")))


class Subscriptions:
    """Finds the filter of each pull. None is the filter that lets everything through."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._built: dict[tuple[str | None, str | None], MessageFilter | None] = {}

    def filter_of(self, kind: PullKind, config: SubscriptionGroupConfig) -> MessageFilter | None:
        """The filter of a pull that relies on what the group's heartbeats said."""
        group = self._broker.clients.consumer_group(kind.consumer_group)
        if group is None:
            raise ResponseError(ResponseCode.SUBSCRIPTION_NOT_EXIST, f"the consumer's group info not exist{FAQ}")
        if not config.consume_broadcast_enable and group.message_model == "BROADCASTING":
            remark = f"the consumer group[{kind.consumer_group}] can not consume by broadcast way"
            raise ResponseError(ResponseCode.NO_PERMISSION, remark)
        subscription = group.subscriptions.get(kind.topic)
        if subscription is None:
            raise ResponseError(ResponseCode.SUBSCRIPTION_NOT_EXIST, f"the consumer's subscription not exist{FAQ}")
        if subscription.sub_version < kind.sub_version:
            raise ResponseError(ResponseCode.SUBSCRIPTION_NOT_LATEST, "the consumer's subscription not latest")
        return self._of_subscription(group.name, subscription, kind.sub_version)

    def filter_in(self, kind: PullKind) -> MessageFilter | None:
        """The filter of a pull that brings its subscription along."""
        return self._build(kind.subscription, kind.expression_type)

    def _of_subscription(self, group: str, subscription: SubscriptionData, version: int) -> MessageFilter | None:
        if subscription.class_filter_mode:
            return None
        if not is_tag_type(subscription.expression_type):
            self._check_filter_data(group, subscription, version)
        filter = self._build(subscription.sub_string, subscription.expression_type)
        if self._broker.options.filter_support_retry and subscription.topic.startswith(RETRY_PREFIX):
            return StoredPropertiesFilter(RetryFilter(MatchAll(), group, self._broker.filters))
        return filter

    def _check_filter_data(self, group: str, subscription: SubscriptionData, version: int) -> None:
        """What the heartbeats said of an expression must be there, must compile, and must be what the puller knows."""
        data = self._broker.filters.get(subscription.topic, group)
        if data is None:
            remark = "The broker's consumer filter data is not exist!Your expression may be wrong!"
            raise ResponseError(ResponseCode.FILTER_DATA_NOT_EXIST, remark)
        if data.client_version < version:
            remark = "the consumer's consumer filter data not latest"
            raise ResponseError(ResponseCode.FILTER_DATA_NOT_LATEST, remark)

    def _build(self, expression: str | None, kind: str | None) -> MessageFilter | None:
        if not is_tag_type(kind) and not self._broker.options.enable_property_filter:
            remark = f"The broker does not support consumer to filter message by {kind}"
            raise ResponseError(ResponseCode.SYSTEM_ERROR, remark)
        key = (expression, kind)
        if key in self._built:
            return self._built[key]
        try:
            built = compile_filter(self._broker.expressions, expression, kind)
        except FilterSyntaxError:
            remark = "parse the consumer's subscription failed"
            raise ResponseError(ResponseCode.SUBSCRIPTION_PARSE_FAILED, remark) from None
        if len(self._built) >= _MOST_KEPT:
            self._built.clear()
        self._built[key] = built
        return built


def compile_filter(compiler: ExpressionCompiler, expression: str | None, kind: str | None) -> MessageFilter | None:
    """The filter of an expression; FilterSyntaxError when it does not compile or its kind is unknown.

    SYSTEM_BUSY is the answer while clients send more new expressions than can be compiled.
    """
    if is_tag_type(kind):
        return _tags(expression)
    if kind != SQL92 or not expression:
        raise FilterSyntaxError(f"no expression of a known kind: {kind}")
    try:
        return StoredPropertiesFilter(compiler.compile(expression))
    except FilterBusy as error:
        raise ResponseError(ResponseCode.SYSTEM_BUSY, str(error)) from None


def _tags(expression: str | None) -> MessageFilter | None:
    if not expression or expression == ALL_TAGS:
        return None
    if not any(part.strip() for part in expression.split("||")):
        raise FilterSyntaxError("no tag in the expression")
    found = TagFilter.of_expression(expression)
    return None if isinstance(found, MatchAll) else StoredPropertiesFilter(found)
