"""Where settings come from, which source wins, and that a wrong key is an error that names it."""

from pathlib import Path

import pytest

from ariane.app import AppError, Ariane, Settings, SettingsError, load_settings

SPRING = """
server: {port: 8081}
spring:
  application: {name: shop}
  cloud:
    stream:
      bindings:
        reserve-in-0: {destination: orders, group: stock, consumer: {concurrency: 4}}
        reserve-out-0: {destination: reserved, content-type: application/json}
      rocketmq:
        bindings:
          reserve-in-0:
            consumer: {subscription: "sql: amount > 3", push: {orderly: true, maxReconsumeTimes: 5}}
rocketmq:
  name-server: ${SERVERS:127.0.0.1:9876;127.0.0.1:9877}
  producer:
    group: shop-producer
    send-message-timeout: 5000
    retryTimesWhenSendFailed: 4
    access-key: me
    secret-key: ${SECRET}
    enable-msg-trace: true
  consumer:
    listeners:
      stock: {orders: false}
  pull-consumer: {group: pullers, topic: orders, selector-type: SQL92, selector-expression: "a > 1", pull-batch-size: 5}
"""


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_keywords_win_over_environment_over_file_over_defaults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(
        tmp_path, "shop.toml",
        'name = "file"\nname_servers = "file:1"\nnamespace = "file"\n[producer]\nretries = 7\nsend_timeout = 9\n',
    )  # fmt: skip
    monkeypatch.setenv("ARIANE_NAME_SERVERS", "env:1;env:2")
    monkeypatch.setenv("ARIANE_NAMESPACE", "env")
    monkeypatch.setenv("ARIANE_PRODUCER__RETRIES", "5")
    monkeypatch.setenv("ARIANE_LISTENERS__STOCK__CONCURRENCY", "3")
    app = Ariane(config=path, namespace="keyword")
    settings = app.settings
    assert (settings.name, settings.name_servers, settings.namespace) == ("file", ("env:1", "env:2"), "keyword")
    assert (settings.producer.retries, settings.producer.send_timeout, settings.producer.async_retries) == (5, 9.0, 2)
    assert settings.listeners["stock"].concurrency == 3


def test_the_file_is_named_by_a_variable_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARIANE_CONFIG", str(write(tmp_path, "a.yaml", "name: named\nhealth: {port: 9}\n")))
    assert (load_settings().name, load_settings().health.port) == ("named", 9)


def test_springs_application_yml_is_understood(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "s3cret")
    settings = load_settings(write(tmp_path, "application.yml", SPRING))
    assert (settings.name, settings.name_servers) == ("shop", ("127.0.0.1:9876", "127.0.0.1:9877"))
    producer = settings.producer
    assert (producer.group, producer.send_timeout, producer.retries, producer.trace) == ("shop-producer", 5.0, 4, True)
    assert producer.secret_key is not None
    assert producer.secret_key.get_secret_value() == "s3cret"
    assert "s3cret" not in repr(settings)
    assert settings.disabled_listeners == (("stock", "orders"),)
    pull = settings.pull_consumer
    assert (pull.group, pull.topic, pull.sql, pull.pull_batch) == ("pullers", "orders", "a > 1", 5)
    came = settings.bindings["reserve-in-0"]
    assert (came.destination, came.group, came.consumer.concurrency) == ("orders", "stock", 4)
    assert (came.consumer.sql, came.consumer.orderly, came.consumer.max_retries) == (" amount > 3", True, 5)


def test_springs_properties_file_is_understood(tmp_path: Path) -> None:
    text = "rocketmq.name-server=a:1;b:2\nrocketmq.producer.group=g\nrocketmq.producer.max-message-size=100\n"
    settings = load_settings(write(tmp_path, "application.properties", text))
    assert (settings.name_servers, settings.producer.group) == (("a:1", "b:2"), "g")
    assert settings.producer.max_message_size == 100


@pytest.mark.parametrize(
    ("file", "text", "named"),
    [
        ("a.toml", "[producer]\ngruop = 'x'\n", "producer.gruop: no such setting; did you mean 'group'?"),
        ("a.yaml", "listeners: {stock: {threads: 3}}\n", "listeners.stock.threads: no such setting"),
        ("a.yaml", "producer: {retries: many}\n", "producer.retries: Input should be a valid integer"),
        ("a.yaml", "rocketmq: {producer: {send-mesage-timeout: 3}}\n", "rocketmq.producer.send-mesage-timeout"),
        ("a.yaml", "rocketmq: {producers: {}}\n", "rocketmq.producers is no property"),
        ("a.yaml", "rocketmq: {name-server: '${NOBODY_SET_THIS}'}\n", "${NOBODY_SET_THIS} has no value"),
        ("a.yaml", "rocketmq: {producer: {max-message-size: big}}\n", "max-message-size cannot be 'big'"),
        ("a.yaml", "- 1\n", "expected keys and values"),
        ("a.yaml", "a: [", "a.yaml"),
        ("a.ini", "", "use .toml, .yaml, .yml or .properties"),
    ],
)
def test_a_wrong_setting_is_an_error_that_names_it(tmp_path: Path, file: str, text: str, named: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings(write(tmp_path, file, text))
    assert named in str(caught.value)


def test_a_misspelt_variable_or_keyword_is_an_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(SettingsError, match="name_server: no such setting; did you mean 'name_servers'"):
        Ariane(name_server="a:1")  # type: ignore[call-arg]
    with pytest.raises(SettingsError, match="name: Value error, a name has letters"):
        Ariane("my shop")
    with pytest.raises(SettingsError, match=r"cannot be read"):
        load_settings(tmp_path / "missing.toml")
    monkeypatch.setenv("ARIANE_GUARANTEE_DATABASE", "sqlite://")
    assert load_settings().name == "ariane-app"
    assert not caplog.records
    monkeypatch.setenv("ARIANE_SOMETHING_ELSE", "x")
    load_settings()
    assert "ARIANE_SOMETHING_ELSE is no setting" in caplog.text
    monkeypatch.setenv("ARIANE_PRODUCERS__GROUP", "x")
    with pytest.raises(SettingsError, match="ARIANE_PRODUCERS__GROUP: no such setting; did you mean 'producer'"):
        load_settings()


def test_settings_override_every_keyword_of_a_listener() -> None:
    app = Ariane(
        listeners={"stock": {"concurrency": 2, "group": "other", "topic": "elsewhere", "retry_delay": [1, 2]}},
        consumer={"concurrency": 9, "pull_batch": 7},
    )

    @app.listener("orders", group="stock", concurrency=5, retry_delay=3)
    def stock(text: str) -> None: ...

    found = stock.settings(app.settings)
    assert (found.concurrency, found.group, found.pull_batch, found.retry_delay) == (2, "other", 7, (1, 2))
    assert stock.topics_of(found) == ("elsewhere",)


@pytest.mark.parametrize(
    ("keywords", "named"),
    [
        ({"group": "g", "concurency": 3}, "concurency: no such setting; did you mean 'concurrency'"),
        ({"group": "g", "concurrency": 0}, "concurrency: Input should be greater than or equal to 1"),
        ({"group": "g", "tags": "a", "sql": "b = 1"}, "tags and sql contradict each other"),
        ({"group": "g", "broadcast": True, "orderly": True}, "do not go together"),
        ({"group": "g", "batch": 3}, "annotate its payload as list[str]"),
        ({"group": "g", "orderly": True, "batch": 1, "retry_delay": "x"}, "retry_delay"),
    ],
)
def test_a_wrong_keyword_of_a_listener_is_an_error_at_the_decorator(keywords: dict[str, object], named: str) -> None:
    app = Ariane()
    with pytest.raises((SettingsError, AppError)) as caught:

        @app.listener("orders", **keywords)  # type: ignore[arg-type]
        def got(text: str) -> None: ...

    assert "listener got" in str(caught.value) or "got" in str(caught.value)
    assert named in str(caught.value)


async def test_contradictions_between_listeners_are_errors_at_the_start() -> None:
    app = Ariane(listeners={"nobody": {"concurrency": 1}})
    with pytest.raises(SettingsError, match=r"listeners\.nobody: the application has no such listener"):
        await app.start()
    app = Ariane()

    @app.listener("orders", group="same")
    def first(text: str) -> None: ...

    @app.listener("returns", group="same")
    def second(text: str) -> None: ...

    with pytest.raises(SettingsError, match="first and second have one group"):
        await app.start()


def test_a_whole_settings_object_is_taken_as_it_is() -> None:
    settings = Settings(name="mine")
    assert Ariane(settings=settings).settings is settings
    with pytest.raises(AppError, match="settings= is complete"):
        Ariane(settings=settings, namespace="x")
