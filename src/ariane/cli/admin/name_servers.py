"""Subcommands about name servers."""

from ariane.cli.admin.call import Call


async def update_kv(call: Call) -> None:
    """updateKvConfig."""
    await call.admin.put_kv(call.text("s"), call.text("k"), call.text("v"))
    call.line("create or update kv config to namespace success.")


async def delete_kv(call: Call) -> None:
    """deleteKvConfig."""
    await call.admin.delete_kv(call.text("s"), call.text("k"))
    call.line("delete kv config from namespace success.")


async def wipe(call: Call) -> None:
    """wipeWritePerm."""
    name = call.text("b")
    for address, count in (await call.admin.wipe_write_perm(name)).items():
        call.line(f"wipe write perm of broker[{name}] in name server[{address}] OK, {count}")


async def add(call: Call) -> None:
    """addWritePerm."""
    name = call.text("b")
    for address, count in (await call.admin.add_write_perm(name)).items():
        call.line(f"add write perm of broker[{name}] in name server[{address}] OK, {count}")


async def configs(call: Call) -> None:
    """getNamesrvConfig."""
    for address, options in (await call.admin.name_server_configs()).items():
        call.line(f"============{address}============")
        for key, value in options.items():
            call.line(f"{key:<50}=  {value}")


async def update_config(call: Call) -> None:
    """updateNamesrvConfig."""
    key, value = call.text("k"), call.text("v")
    await call.admin.update_name_servers({key: value})
    told = f"[{', '.join(await call.admin.name_servers())}]" if call.has("n") else ""
    call.line(f"update name server config success!{told}\n{key} : {value}")
