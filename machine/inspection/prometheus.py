"""Client of the Prometheus HTTP API."""

import asyncio
import ssl

import aiohttp

TIMEOUT_SECONDS = 15.0
LONGEST_ANSWER = 2**22
"""Greatest size of a response in bytes, far above one with a series for each machine of a batch."""


class PrometheusUnanswered(Exception):
    """No readable response arrived. The message is for people."""


class Prometheus:
    """Client of one Prometheus.

    url: `http://HOST:PORT`, with a path if needed; "" if there is none.
    timeout: seconds for a query.
    """

    def __init__(self, url: str, timeout: float = TIMEOUT_SECONDS) -> None:
        self._url, self._timeout = url.rstrip("/"), timeout

    async def ask(self, query: str) -> bytes:
        """Return the response to an instant query, also if the query has an error.

        Raises PrometheusUnanswered. Each query opens a session, because there are few, minutes
        apart.
        """
        if not self._url:
            raise PrometheusUnanswered("no Prometheus is known: give --prometheus-url")
        try:
            async with asyncio.timeout(self._timeout):
                return await self._send_query(query)
        except TimeoutError:
            raise PrometheusUnanswered(
                f"Prometheus gave no answer within {self._timeout:g} s"
            ) from None
        except (aiohttp.ClientError, ssl.SSLError, OSError) as error:
            raise PrometheusUnanswered(f"Prometheus cannot be reached: {error}") from error

    async def _send_query(self, query: str) -> bytes:
        async with (
            aiohttp.ClientSession() as session,
            session.post(f"{self._url}/api/v1/query", data={"query": query}) as response,
        ):
            # Responses 400 and 422 explain in JSON what is wrong with the query.
            if response.status not in (200, 400, 422):
                raise PrometheusUnanswered(f"Prometheus answers {response.status}")
            raw = await response.content.read(LONGEST_ANSWER + 1)
            while len(raw) <= LONGEST_ANSWER and (more := await response.content.read(2**16)):
                raw += more
            if len(raw) > LONGEST_ANSWER:
                raise PrometheusUnanswered(
                    f"Prometheus' answer has more than {LONGEST_ANSWER} bytes"
                )
            return raw
