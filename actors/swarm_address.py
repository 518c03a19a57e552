"""Where the swarm listener listens, and what address nodes are told.  It accepts nothing."""

import errno
import ipaddress
import socket

BACKLOG = 1024


class SwarmListenError(Exception):
    """The swarm cannot listen as it was told; the text names address, cause and a way out."""


def open_listening(
    listen: str, *, allow_remote: bool, advertise: str | None
) -> tuple[socket.socket, str]:
    """A listening socket for `host:port` (`[host]:port` for IPv6; port 0: any free one), and the
    address that nodes are told.

    Raises:
        SwarmListenError: see there.
    """
    host, port = parse_address(listen)
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise SwarmListenError(f"swarm listen {listen!r}: no such host: {error}") from error
    family, _, _, _, address = found[0]
    ip = ipaddress.ip_address(str(address[0]).partition("%")[0])
    if not ip.is_loopback and not allow_remote:
        raise SwarmListenError(
            f"swarm listen {listen!r}: {ip} can be reached from other machines; listen on "
            "127.0.0.1 or [::1], or allow remote nodes explicitly (allow_remote=True)"
        )
    if ip.is_unspecified and advertise is None:
        raise SwarmListenError(
            f"swarm listen {listen!r}: {ip} is every address of this machine and none that a node "
            "could connect to; say which one nodes are to use (advertise='host')"
        )
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listening.bind(address)
        listening.listen(BACKLOG)
    except (OSError, OverflowError) as error:
        listening.close()
        if isinstance(error, OSError) and error.errno == errno.EADDRNOTAVAIL:
            raise SwarmListenError(
                f"swarm listen {listen!r}: no address of this machine; listen on 127.0.0.1 or "
                "[::1] for nodes on this machine, or on one that `ip address` shows"
            ) from error
        raise SwarmListenError(
            f"swarm listen {listen!r}: {error}; if another program (or another reconciler) has the "
            "port, choose another one, or port 0 for any that is free"
        ) from error
    bound = int(listening.getsockname()[1])
    return listening, format_address(advertise or str(ip), bound)


def parse_address(text: str) -> tuple[str, int]:
    """Host and port of `host:port` or `[host]:port`.

    Raises:
        SwarmListenError: it is neither.
    """
    host, colon, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise SwarmListenError(
            f"swarm listen {text!r}: an IPv6 address stands in brackets, such as '[::1]:0'"
        )
    if not colon or not host or not port.isascii() or not port.isdecimal() or int(port) > 65535:
        raise SwarmListenError(
            f"swarm listen {text!r}: expected host:port with a port from 0 to 65535, "
            "such as '127.0.0.1:0'"
        )
    return host, int(port)


def format_address(host: str, port: int) -> str:
    """The address as one text."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
