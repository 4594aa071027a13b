"""Long lists page by page, for what is read once; what is followed has an informer."""

from collections.abc import AsyncIterator
from typing import Any

from kubenode.runtime.kube.client import Kube

PAGE = 500


async def items(kube: Kube, path: str, *, selector: str | None = None) -> AsyncIterator[Any]:
    """The objects of the list at `path`, those with these labels if any are given. Raises KubeError
    in the middle too.
    """
    more: str | None = None
    while True:
        query = {"labelSelector": selector, "limit": PAGE, "continue": more}
        page = await kube.get(path, query=query)
        for item in page.get("items") or ():
            yield item
        more = (page.get("metadata") or {}).get("continue")
        if not more:
            return
