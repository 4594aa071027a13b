"""People at a running site, over HTTP: they log in, and send the forms of its pages."""

import html
import re

import aiohttp


def browser() -> aiohttp.ClientSession:
    return aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True))


async def log_in(session: aiohttp.ClientSession, url: str, token: str) -> int:
    async with session.post(f"{url}/login", data={"token": token}, allow_redirects=False) as answer:
        return answer.status


async def read_form_token(session: aiohttp.ClientSession, url: str, **headers: str) -> str:
    """Return the token of the forms of this login, from the first page."""
    async with session.get(f"{url}/", headers=headers) as answer:
        match = re.search(r'name="form_token" value="(\w+)"', await answer.text())
    assert match is not None
    return match[1]


async def post(
    session: aiohttp.ClientSession, url: str, path: str, fields: dict[str, str], **headers: str
) -> tuple[int, str]:
    """Return the code, and the message of the page that follows, or else its text."""
    data = {**fields, "form_token": await read_form_token(session, url, **headers)}
    async with session.post(url + path, data=data, headers=headers) as answer:
        text = await answer.text()
    message = re.search(r'role="status">([^<]*)<', text)
    return answer.status, html.unescape(message[1]) if message else text
