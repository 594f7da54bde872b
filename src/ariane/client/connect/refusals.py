"""Error responses as errors for users: which server, what was asked, what to do next."""

from ariane.errors import AccessDenied, ArianeError, BrokerRefused, ConnectFailed, RequestTimeout, SendFailed
from ariane.protocol.codes import OWN_REQUESTS, RequestCode, ResponseCode, code_name
from ariane.protocol.command import Command

_ADVICE = {
    ResponseCode.SYSTEM_BUSY: "the broker is overloaded: send less, or later",
    ResponseCode.SERVICE_NOT_AVAILABLE: "the broker is stopping, is a slave, or its disk is full",
    ResponseCode.MESSAGE_ILLEGAL: "the message is over the broker's limits, or its topic's name is reserved",
    ResponseCode.NO_PERMISSION: "the topic, group or broker does not permit this: look at its perm",
    ResponseCode.TOPIC_NOT_EXIST: "create the topic, or allow autoCreateTopicEnable on the broker",
    ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST: "create the group, or allow autoCreateSubscriptionGroup on the broker",
    ResponseCode.SUBSCRIPTION_PARSE_FAILED: "correct the filter expression",
    ResponseCode.SUBSCRIPTION_NOT_EXIST: "the broker does not know this consumer yet; it will after a heartbeat",
    ResponseCode.SUBSCRIPTION_NOT_LATEST: "another consumer of the group subscribes differently: make them equal",
    ResponseCode.FLOW_CONTROL: "the broker limits this client: ask less often",
    ResponseCode.REQUEST_CODE_NOT_SUPPORTED: "this server is too old, or not the kind that answers this",
}
_DENIED = "check the access key, the secret key and the permissions in plain_acl.yml"


_CARRY_ADVICE: dict[type[ArianeError], str] = {
    ConnectFailed: "is the broker up, and can its address be reached from here?",
    SendFailed: "whether the message was stored is not known: send it again if twice does no harm",
    RequestTimeout: "it may have been stored all the same; look at the broker's load, or raise the time-out",
}


def advised(error: ArianeError) -> ArianeError:
    """The error of a send, with advice when no response was received."""
    kind = type(error)
    return kind(f"{error} ({_CARRY_ADVICE[kind]})") if kind in _CARRY_ADVICE else error


def request_name(code: int) -> str:
    """The name of a request code."""
    try:
        return RequestCode(code).name
    except ValueError:
        return OWN_REQUESTS.get(code, f"request {code}")


def refusal(address: str, request: int, response: Command) -> BrokerRefused:
    """The error for a response that is not a success."""
    remark = response.remark or ""
    denied = _is_denied(response.code, remark)
    advice = _DENIED if denied else _ADVICE.get(ResponseCode(response.code)) if _known(response.code) else None
    what = "denied access to" if denied else "refused"
    text = f"{address} {what} {request_name(request)}: {code_name(response.code)}: {remark}".rstrip(": ")
    kind = AccessDenied if denied else BrokerRefused
    return kind(response.code, remark, address, f"{text} ({advice})" if advice else text)


def _known(code: int) -> bool:
    return code in ResponseCode._value2member_map_


def _is_denied(code: int, remark: str) -> bool:
    """4.x brokers answer a denial as SYSTEM_ERROR with the exception's name, 5.x ones as NO_PERMISSION."""
    if code == ResponseCode.SYSTEM_ERROR:
        return "AclException" in remark
    return code == ResponseCode.NO_PERMISSION and ("AclException" in remark or "AUTH" in remark.upper())
