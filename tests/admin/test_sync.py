"""Admin for threads, and the names that `ariane` exports for it."""

import inspect

import ariane
from ariane import Admin, Message, Producer
from ariane.client.admin import Admin as AsyncAdmin
from ariane.message import dead_letter_topic
from tests.client.conftest import Site
from tests.peers import unique, until


def test_dead_letters_come_one_after_the_other_and_a_loop_may_break_off(site: Site) -> None:
    group = unique("group")
    with Admin(name_servers=site.name_servers) as admin, Producer("shop", name_servers=site.name_servers) as producer:
        topic = dead_letter_topic(group)
        admin.create_topic(topic, queues=1)
        until(lambda: topic in admin.topics(), 60, "the topic")
        for number in range(40):
            producer.send(Message(topic, b"%d" % number))
        until(lambda: len(admin.dead_letters(group)) == 40, 60, "the letters")
        assert [int(one.message.body) for one in admin.each_dead_letter(group)] == list(range(40))
        for letter in admin.each_dead_letter(group):
            assert letter.message.body == b"0"
            break
        assert admin.dead_letters(group, key="no-such-key") == []


def test_both_forms_have_the_same_methods_and_each_is_documented() -> None:
    names = {name for name in dir(AsyncAdmin) if not name.startswith("_")} - {"needs_threads"}
    assert names == {name for name in dir(Admin) if not name.startswith("_")}
    for name in names:
        assert inspect.getdoc(getattr(AsyncAdmin, name)), name


def test_every_result_is_exported() -> None:
    """A type in a signature that cannot be imported from `ariane` cannot be annotated by users."""
    missing = set()
    for name, method in inspect.getmembers(AsyncAdmin, inspect.isfunction):
        if not name.startswith("_"):
            text = str(inspect.signature(method).return_annotation)
            missing |= {
                part.split(".")[-1]
                for part in text.replace("[", " ").replace("]", " ").replace(",", " ").replace("'", " ").split()
                if part.startswith("ariane.") and not hasattr(ariane, part.split(".")[-1])
            }
    assert missing == set()
