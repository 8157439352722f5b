"""Where messages may go: what an address must look like, and which places its name may lead to.

The name is looked up once for each attempt, every place it leads to is checked, and the connection goes to one of the
checked places. Otherwise a name could lead elsewhere between the check and the connection.
"""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address

import httpx
from django.conf import settings
from django.utils.translation import gettext as _

LONGEST = 2_000
# Services that give a machine's own credentials to whoever asks from it.
_METADATA = frozenset(map(ip_address, ("fd00:ec2::254", "100.100.100.200")))
# A host name as it is looked up, in ASCII.
_NAME = re.compile(r"[a-z0-9_](?:[a-z0-9_.-]{0,251}[a-z0-9_.])?")
# The last 32 bits are an IPv4 address: that of NAT64, and the old form ``::192.0.2.1``.
_ENDS_IN_IPV4 = (IPv6Network("64:ff9b::/96"), IPv6Network("::/96"))
# Behind these is any IPv4 address, in whatever place a local NAT64 writes it, or behind a tunnel of Teredo.
_HIDES_IPV4 = (IPv6Network("64:ff9b:1::/48"), IPv6Network("2001::/32"))

Place = IPv4Address | IPv6Address


class AddressError(ValueError):
    """An address that cannot be a receiver's; the text is a sentence for people."""


class PlaceRefused(Exception):
    """The name leads to a place to which nothing is sent."""


def checked(typed: str) -> str:
    """The address as it is stored. Raises AddressError."""
    address = typed.strip()
    try:
        url = httpx.URL(address)
    except httpx.InvalidURL:
        raise AddressError(_("Type an address such as https://example.com/hook.")) from None
    is_usable = url.scheme in ("http", "https") and (url.port is None or 0 < url.port < 65_536)
    if not is_usable or len(address) > LONGEST or not (_NAME.fullmatch(url.raw_host.decode()) or _literal(url.host)):
        raise AddressError(_("Type an address such as https://example.com/hook."))
    if url.userinfo:
        raise AddressError(_("An address has no user and password; put a token into its path or query."))
    if (place := _literal(url.host)) and not is_permitted(place):
        raise AddressError(_("Nothing is sent to %(place)s: it is not an address of the internet.") % {"place": place})
    return str(url.copy_with(fragment=None))


def is_permitted(place: Place) -> bool:
    """Whether messages may go there: to the internet always, to local networks by the setting, to link-local addresses,
    behind which are the credentials of rented machines, never."""
    inner = _embedded(place)
    if any(inner in network for network in _HIDES_IPV4):
        return False
    if inner.is_link_local or inner.is_multicast or inner.is_unspecified or inner in _METADATA:
        return False
    return inner.is_global or bool(settings.WEBHOOK_PRIVATE_ADDRESSES)


def _embedded(place: Place) -> Place:
    """The IPv4 address that an IPv6 address stands for, or itself."""
    if isinstance(place, IPv4Address):
        return place
    if any(place in network for network in _ENDS_IN_IPV4):
        return IPv4Address(int(place) & 0xFFFFFFFF)
    return place.ipv4_mapped or place.sixtofour or place


async def places_of(url: httpx.URL) -> Sequence[Place]:
    """The places of the address's name, each checked. Raises PlaceRefused, and OSError for a name nobody knows."""
    host = url.raw_host.decode("ascii").strip("[]")
    if literal := _literal(host):
        places = [literal]
    else:
        found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
        places = [ip_address(str(address[0]).partition("%")[0]) for *_family, address in found]
    if not all(is_permitted(place) for place in places):
        raise PlaceRefused
    return list(dict.fromkeys(places))


def at_place(url: httpx.URL, place: Place) -> tuple[httpx.URL, dict[str, str], dict[str, str]]:
    """The address with the place instead of its name, and the header and extension that still carry the name."""
    name = url.raw_host.decode("ascii")
    # A certificate is for the name; an address in brackets or digits has none.
    extensions = {} if _literal(name.strip("[]")) else {"sni_hostname": name}
    return url.copy_with(host=str(place)), {"host": url.netloc.decode("ascii")}, extensions


def _literal(host: str) -> Place | None:
    try:
        return ip_address(host)
    except ValueError:
        return None
