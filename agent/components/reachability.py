"""Network access of checks on this host."""

import asyncio
import contextlib

import aiohttp


class RealReach:
    """Implements agent.components.health.Reach.

    Certificates are not verified, as in the kubelet's probes: the service is the host's own, mostly
    under a name that no certificate has.
    """

    async def http(self, url: str, limit: float) -> str:
        timeout = aiohttp.ClientTimeout(total=limit)
        try:
            async with (
                aiohttp.ClientSession(timeout=timeout) as session,
                session.get(url, ssl=False, allow_redirects=False) as answer,
            ):
                return "" if 200 <= answer.status < 300 else f"{url} answers {answer.status}"
        except TimeoutError:
            return f"{url} does not answer within {limit:g} s"
        except (aiohttp.ClientError, OSError, ValueError) as error:
            return f"{url}: {error or type(error).__name__}"

    async def tcp(self, address: str, limit: float) -> str:
        host, _, port = address.rpartition(":")
        try:
            async with asyncio.timeout(limit):
                _, writer = await asyncio.open_connection(host.strip("[]"), int(port))
        except TimeoutError:
            return f"{address} takes no connection within {limit:g} s"
        except (OSError, ValueError) as error:
            return f"{address}: {error}"
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
        return ""
