"""The words that people bring from other tools, and the keys that are meant by them.

Beside `faults.nearest`, which knows slips of the keyboard alone.  Judges nothing.
"""

from msgspec import inspect

from cluster_reconciler.actors.cli.faults import nearest

_MEANT = {
    "start_swactor_command": ("command", "cmd", "start_command", "start", "run", "entrypoint"),
    "count": ("nodes", "replicas", "size", "num_nodes", "node_count", "instances", "workers", "n"),
    "group_id": ("name", "id", "group", "group_name"),
    "provider": ("cloud", "backend", "infra", "where"),
    "role": ("type", "kind"),
    "verify_commands": ("setup", "setup_commands", "checks", "pre_start", "init", "health_check"),
    "env": ("environment", "envs", "variables", "vars", "secrets"),
    "args": ("arguments", "argv", "parameters"),
    "mounts": ("volumes", "volume", "file_mounts", "binds"),
    "ssh_user": ("user", "username"),
    "host_path": ("source", "src", "from", "host"),
    "container_path": ("target", "destination", "dest", "to", "mount_path"),
    "readonly": ("ro",),
    "image": ("image_id", "docker_image", "container", "ami"),
    "disk_gb": ("disk", "disk_size", "storage"),
    "gpu_name": ("gpu", "accelerators", "accelerator", "gpu_type"),
    "provider_labels": ("labels", "tags"),
    "join_token_ref": ("token", "join_token"),
    "orch_swactor_addr": ("address", "join_address"),
    "listen": ("bind", "address", "port", "host"),
    "heartbeat": ("heartbeat_interval", "interval"),
    "grace": ("grace_period", "timeout"),
    "in_flight": ("concurrency", "parallelism", "max_parallel", "parallel", "max"),
    "state_dir": ("directory", "dir", "path", "folder"),
    "initial_delay": ("backoff", "delay"),
    "run_id": ("run", "cluster_id", "id"),
    "groups": ("node_groups", "nodes", "pools", "node_pools", "group"),
    "retry": ("backoff", "retries"),
    "generation": ("version", "revision"),
    "shape": ("machine", "resources", "hardware"),
}


def key_meant(key: str, wanted: inspect.StructType, taken: dict[str, object]) -> str | None:
    """The key of this table that is meant, whether by another tool's word or by a slip; None: no
    such key is missing."""
    missing = [field.encode_name for field in wanted.fields if field.encode_name not in taken]
    return meant_by(key, wanted, taken) or nearest(key, missing)


def meant_by(key: str, wanted: inspect.StructType, taken: object) -> str | None:
    """The key of this table, or of a table in it (`boot.env`), that the word stands for; None: no
    such key.  `taken`: the keys that stand there already."""
    word = key.lower().replace("-", "_")
    # The run_id of a group need not be written: no other word stands for it.
    known = [f.encode_name for f in wanted.fields if f.required or f.encode_name != "run_id"]
    given = taken if isinstance(taken, dict) else {}
    for name in known:
        if word in _MEANT.get(name, ()) and name not in given:
            return name
    for field in wanted.fields:
        inner = _struct_of(field.type)
        for name in [each.encode_name for each in inner.fields] if inner is not None else ():
            if word == name or word in _MEANT.get(name, ()):
                return f"{field.encode_name}.{name}"
    return None


def _struct_of(wanted: inspect.Type) -> inspect.StructType | None:
    if isinstance(wanted, inspect.Metadata):
        return _struct_of(wanted.type)
    return wanted if isinstance(wanted, inspect.StructType) else None
