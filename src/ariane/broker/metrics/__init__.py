"""A broker's figures for Prometheus.

sample      what one scrape reads: a row for each topic and for each topic and group
exporter    the families of rocketmq-exporter, so that its dashboards work unchanged
runtime     those of them that show the runtime information
native      the families that RocketMQ 5's brokers have themselves
own         Ariane's own
consumers   asks the consumers for their own figures, as rocketmq-exporter does
readiness   the checks of /ready
"""

from ariane.broker.metrics.figures import BrokerFigures

__all__ = ["BrokerFigures"]
