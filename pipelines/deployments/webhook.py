"""The webhook of those who are on duty, as a Prefect block."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

from prefect.blocks.webhook import Webhook
from prefect.client.orchestration import SyncPrefectClient
from prefect.exceptions import ObjectNotFound

from pipelines.deployments.settings import NOTIFY_URL, Settings
from specdecode.errors import ConfigError

BLOCK = "specdecode-notify"


def apply_webhook(client: SyncPrefectClient, settings: Settings) -> Iterator[str]:
    """Saves the block when its address is new or another, and yields what was changed.

    Without an address in the environment a block that is there stays as it is.

    Raises:
        ConfigError: the address is none that can be called.
    """
    url = settings.notify_url
    if url is None:
        return
    if not url.startswith(("http://", "https://")):
        raise ConfigError(f"{NOTIFY_URL}: give an address that begins with http:// or https://")
    before = _address(client)
    if before != url:
        block = Webhook(url=url, method="POST")
        block.save(BLOCK, overwrite=True)
        yield f"{'created' if before is None else 'updated'} webhook block {BLOCK}"


def webhook_id(client: SyncPrefectClient) -> UUID | None:
    """The id of the block, which automations refer to; None when there is none."""
    try:
        return client.read_block_document_by_name(BLOCK, "webhook").id
    except ObjectNotFound:
        return None


def _address(client: SyncPrefectClient) -> str | None:
    try:
        document = client.read_block_document_by_name(BLOCK, "webhook", include_secrets=True)
    except ObjectNotFound:
        return None
    return str(document.data.get("url"))
