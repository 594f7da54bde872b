from tests.broker.conftest import talk_to

__all__ = ["talk_to"]
