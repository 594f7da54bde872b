"""Requests about access control, on a broker that has none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ariane.errors import ResponseError
from ariane.protocol.codes import RequestCode, ResponseCode
from ariane.protocol.command import Command
from ariane.protocol.headers import (
    CreateAccessConfigRequest,
    DeleteAccessConfigRequest,
    Header,
    UpdateGlobalWhiteAddrsConfigRequest,
)
from ariane.remoting import Connection, Handler

if TYPE_CHECKING:
    from ariane.broker.server import Broker

OFF = "access control is off on this broker: aclEnable is false"


def _refuse(code: int, header: type[Header] | None = None) -> Handler:
    """Answer with an error; Apache's broker leaves the two questions without an answer, which helps nobody."""

    def handler(_: Connection, request: Command) -> Command:
        if header is not None:
            header.parse(request.fields)
        raise ResponseError(code, OFF)

    return handler


def handlers(_: Broker) -> dict[int, Handler]:
    failed = ResponseCode
    return {
        RequestCode.UPDATE_AND_CREATE_ACL_CONFIG: _refuse(
            failed.UPDATE_AND_CREATE_ACL_CONFIG_FAILED, CreateAccessConfigRequest
        ),
        RequestCode.DELETE_ACL_CONFIG: _refuse(failed.DELETE_ACL_CONFIG_FAILED, DeleteAccessConfigRequest),
        RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG: _refuse(
            failed.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG_FAILED, UpdateGlobalWhiteAddrsConfigRequest
        ),
        RequestCode.GET_BROKER_CLUSTER_ACL_INFO: _refuse(failed.SYSTEM_ERROR),
        RequestCode.GET_BROKER_CLUSTER_ACL_CONFIG: _refuse(failed.SYSTEM_ERROR),
    }
