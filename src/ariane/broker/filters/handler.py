"""Uploads of filters, their administration, and the registration of filter servers."""

from __future__ import annotations

import logging
from collections.abc import Callable
from zlib import crc32

from ariane.broker.config.live import LiveOptions
from ariane.broker.filters.modules import FilterModules
from ariane.broker.filters.servers import FilterServers
from ariane.broker.names import check_group
from ariane.broker.role import Role
from ariane.env import Clock
from ariane.errors import ResponseError
from ariane.extras import MissingExtra
from ariane.filter import FilterBusy
from ariane.filter.wasm import InvalidModule, check_bytes, digest_of
from ariane.message import is_valid_name
from ariane.protocol.bodies import FilterList, FilterRecord
from ariane.protocol.codes import ResponseCode
from ariane.protocol.command import Command
from ariane.protocol.headers import (
    FilterOfGroupRequest,
    RegisterFilterServerRequest,
    RegisterFilterServerResponse,
    RegisterMessageFilterClassRequest,
)
from ariane.remoting import ACCOUNT, Connection, Peer

log = logging.getLogger("ariane.broker")

LONGEST_NAME = 255


class FiltersHandler:
    """Answers requests about users' filters."""

    def __init__(
        self,
        modules: FilterModules,
        servers: FilterServers,
        role: Role,
        options: LiveOptions,
        clock: Clock,
        is_white: Callable[[Peer], bool],
    ) -> None:
        """`is_white` tells whether an address needs no account here."""
        self._modules = modules
        self._servers = servers
        self._role = role
        self._options = options
        self._clock = clock
        self._is_white = is_white

    async def upload(self, connection: Connection, request: Command) -> Command:
        """REGISTER_MESSAGE_FILTER_CLASS: keep the WebAssembly module of a group for a topic."""
        header = RegisterMessageFilterClassRequest.parse(request.fields)
        options = self._options.current
        if not options.filter_upload_enable:
            remark = "this broker takes no filters from consumers: set filterUploadEnable=true and restart it"
            raise ResponseError(ResponseCode.NO_PERMISSION, remark)
        check_group(header.consumer_group)
        if not is_valid_name(header.topic):
            raise ResponseError(ResponseCode.SYSTEM_ERROR, f"{header.topic!r} is no name of a topic")
        if len(header.class_name) > LONGEST_NAME or not header.class_name.isprintable():
            raise ResponseError(ResponseCode.SYSTEM_ERROR, "the name of a filter has at most 255 printable characters")
        module = bytes(request.body)
        try:
            check_bytes(module, options.filter_module_max_bytes)
            digest = digest_of(module)
            if header.sha256 != digest or header.class_crc != crc32(module) & 0x7FFFFFFF:
                raise InvalidModule("sha256 or classCRC of the request is not that of its body")
            await self._modules.put(
                FilterRecord(
                    header.consumer_group,
                    header.topic,
                    digest,
                    len(module),
                    header.class_name,
                    header.filter_server,
                    connection.attributes.get(ACCOUNT) or str(connection.peer),
                    self._clock.now_ms(),
                ),
                module,
            )
        except InvalidModule as error:
            remark = f"the filter {header.class_name} is refused: {error}"
            raise ResponseError(ResponseCode.SUBSCRIPTION_PARSE_FAILED, remark) from None
        except FilterBusy as error:
            raise ResponseError(ResponseCode.SYSTEM_BUSY, str(error)) from None
        except MissingExtra as error:
            raise ResponseError(ResponseCode.SYSTEM_ERROR, f"this broker runs no WebAssembly: {error}") from None
        except OSError as error:
            raise ResponseError(ResponseCode.SYSTEM_ERROR, f"the filter could not be stored: {error}") from None
        log.warning("filter %s of %s for %s is in force", digest[:12], header.consumer_group, header.topic)
        return request.reply()

    def list(self, _: Connection, request: Command) -> Command:
        """GET_FILTER_LIST: all uploaded modules."""
        return request.reply(body=FilterList(self._modules.all()).encode())

    async def get(self, _: Connection, request: Command) -> Command:
        """GET_FILTER: the bytes of a module."""
        header = FilterOfGroupRequest.parse(request.fields)
        record = self._modules.find(header.consumer_group, header.topic)
        if record is None:
            raise _missing(header)
        try:
            return request.reply(body=await self._modules.read(record.sha256))
        except OSError as error:
            raise ResponseError(ResponseCode.SYSTEM_ERROR, str(error)) from None

    async def remove(self, _: Connection, request: Command) -> Command:
        """REMOVE_FILTER: pulls of the group are refused from now on, until a consumer uploads a filter."""
        header = FilterOfGroupRequest.parse(request.fields)
        if not await self._modules.remove(header.consumer_group, header.topic):
            raise _missing(header)
        return request.reply()

    def register_server(self, connection: Connection, request: Command) -> Command:
        """REGISTER_FILTER_SERVER: a filter server is there, or still there. The answer lists the uploaded modules."""
        header = RegisterFilterServerRequest.parse(request.fields)
        if self._is_white(connection):
            remark = (
                "the filter server's address is on the global white list: whoever pulls through it would need no "
                "account. Take it off the list"
            )
            raise ResponseError(ResponseCode.NO_PERMISSION, remark)
        self._servers.register(connection, header.filter_server_addr)
        answer = RegisterFilterServerResponse(self._options.current.broker_name, self._role.broker_id)
        served = [record for record in self._modules.all() if record.filter_server]
        return request.reply(fields=answer.fields(), body=FilterList(served).encode())


def _missing(header: FilterOfGroupRequest) -> ResponseError:
    remark = f"{header.consumer_group} has no filter for {header.topic} on this broker"
    return ResponseError(ResponseCode.FILTER_DATA_NOT_EXIST, remark)
