"""Subscriptions of consumers, compiled to the filters that the store applies."""

from __future__ import annotations

from collections import Counter

from ariane.broker.config.live import LiveOptions
from ariane.broker.filters.modules import FilterModules
from ariane.broker.refusals import FAQ
from ariane.broker.tables.clients import ClientTable
from ariane.env import Clock
from ariane.errors import ResponseError
from ariane.filter import (
    EXPRESSION,
    WASM,
    BodyFilter,
    ConsumerFilters,
    ExpressionCompiler,
    FilterBusy,
    FilterFailed,
    FilterSyntaxError,
    GroupBudgets,
    GuardedFilter,
    MatchAll,
    RetryFilter,
    StoredPropertiesFilter,
    compile_filter,
    is_tag_type,
)
from ariane.message import RETRY_PREFIX
from ariane.protocol.bodies import SubscriptionData, SubscriptionGroupConfig
from ariane.protocol.codes import ResponseCode
from ariane.protocol.fast.pulling import PullKind
from ariane.protocol.headers.consume import CLASS_FILTER
from ariane.store.results import MessageFilter

_MOST_KEPT = 1024


class Subscriptions:
    """Finds the filter of each pull; None lets everything through."""

    def __init__(
        self,
        clients: ClientTable,
        filters: ConsumerFilters,
        compiler: ExpressionCompiler,
        modules: FilterModules,
        options: LiveOptions,
        clock: Clock,
    ) -> None:
        self._clients = clients
        self._filters = filters
        self._compiler = compiler
        self._modules = modules
        self._options = options
        self._clock = clock
        self._built: dict[tuple[str, str | None, str | None], MessageFilter | None] = {}
        self._budgets = GroupBudgets(clock.monotonic)
        modules.on_change.append(self._built.clear)
        self.failures: Counter[str] = Counter()
        """How often a filter could not decide about a message, by reason."""

    def filter_of(self, kind: PullKind, config: SubscriptionGroupConfig) -> MessageFilter | None:
        """The filter of a pull that relies on the subscription in the group's heartbeats."""
        group = self._clients.consumer_group(kind.consumer_group)
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
        """The filter of a pull that carries its own subscription; None when a filter server applies it."""
        if kind.sys_flag & CLASS_FILTER:
            return None
        return self._build(kind.consumer_group, kind.topic, kind.subscription, kind.expression_type)

    def _of_subscription(self, group: str, subscription: SubscriptionData, version: int) -> MessageFilter | None:
        if subscription.class_filter_mode:
            return None
        if not is_tag_type(subscription.expression_type) and subscription.expression_type != WASM:
            self._check_filter_data(group, subscription, version)
        filter = self._build(group, subscription.topic, subscription.sub_string, subscription.expression_type)
        if self._options.current.filter_support_retry and subscription.topic.startswith(RETRY_PREFIX):
            return StoredPropertiesFilter(RetryFilter(MatchAll(), group, self._filters))
        return filter

    def _check_filter_data(self, group: str, subscription: SubscriptionData, version: int) -> None:
        """Check that the group's heartbeats gave an expression, and that it is not older than the puller's version."""
        data = self._filters.get(subscription.topic, group)
        if data is None:
            remark = "The broker's consumer filter data is not exist!Your expression may be wrong!"
            raise ResponseError(ResponseCode.FILTER_DATA_NOT_EXIST, remark)
        if data.client_version < version:
            remark = "the consumer's consumer filter data not latest"
            raise ResponseError(ResponseCode.FILTER_DATA_NOT_LATEST, remark)

    def _build(self, group: str, topic: str, expression: str | None, kind: str | None) -> MessageFilter | None:
        if not is_tag_type(kind) and not self._options.current.enable_property_filter:
            remark = f"The broker does not support consumer to filter message by {kind}"
            raise ResponseError(ResponseCode.SYSTEM_ERROR, remark)
        owner = {EXPRESSION: group, WASM: f"{group}@{topic}"}.get(kind or "", "")
        key = (owner, expression, kind)
        if key in self._built:
            return self._built[key]
        try:
            if kind in (EXPRESSION, WASM) and expression:
                built: MessageFilter | None = self._guarded(group, topic, expression, kind)
            else:
                built = compile_filter(self._compiler, expression, kind)
        except FilterSyntaxError:
            remark = "parse the consumer's subscription failed"
            raise ResponseError(ResponseCode.SUBSCRIPTION_PARSE_FAILED, remark) from None
        except FilterBusy as error:
            raise ResponseError(ResponseCode.SYSTEM_BUSY, str(error)) from None
        except FilterFailed as error:
            self.failures[error.reason] += 1
            remark = f"the filter of {group} for {topic} cannot be used: {error}"
            raise ResponseError(ResponseCode.SYSTEM_ERROR, remark) from None
        if len(self._built) >= _MOST_KEPT:
            self._built.clear()
        self._built[key] = built
        return built

    def _guarded(self, group: str, topic: str, expression: str, kind: str) -> GuardedFilter:
        """A filter that reads bodies; all filters of a group share its time."""
        if kind == WASM:
            decide = self._modules.decide(group, topic, expression)
        else:
            compiled = self._compiler.compile_kind(expression, EXPRESSION)
            assert isinstance(compiled, BodyFilter)
            decide = compiled.matches_unit
        budget = self._budgets.of(group, self._options.current.filter_group_millis_per_second)
        return GuardedFilter(decide, budget, self._clock.monotonic, self.failures)
