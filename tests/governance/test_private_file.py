"""A secret is read only from a file that nobody else could have read."""

from __future__ import annotations

import os
import threading

import pytest

from specdecode.errors import ConfigError
from specdecode.governance.private_file import LARGEST_BYTES, read_private
from specdecode.governance.signing import SigningKey
from specdecode.governance.vault_key import new_share, read_share
from tests.governance.keys import ADA

OTHERS = [1 << bit for bit in range(6)]
"""Each right that somebody else could have."""


def read(path):
    return read_private(path, made_by="make key", instead="make another")


@pytest.fixture
def secret(tmp_path):
    path = tmp_path / "secret"
    path.write_bytes(b"content")
    path.chmod(0o600)
    return path


@pytest.mark.parametrize("mode", [0o600, 0o400, 0o700])
def test_a_file_of_its_owner_is_read(secret, mode):
    secret.chmod(mode)

    assert read(secret) == read(str(secret)) == b"content"


@pytest.mark.parametrize("right", OTHERS)
def test_any_right_of_others_is_too_much(secret, right):
    secret.chmod(0o600 | right)

    with pytest.raises(ConfigError, match=rf"mode {0o600 | right:o}\).*600.*make another if"):
        read(secret)


def test_what_is_no_secret_may_be_read_by_all_and_is_not_endless(secret):
    secret.chmod(0o644)

    assert read_private(secret, made_by="", instead="", public=True) == b"content"
    with pytest.raises(ConfigError, match="no key"):
        read_private("/dev/zero", made_by="", instead="", public=True)


def test_a_link_counts_as_what_it_leads_to(secret, tmp_path):
    link = tmp_path / "link"  # whose own mode is 777
    link.symlink_to(secret)
    assert read(link) == b"content"

    secret.chmod(0o644)
    with pytest.raises(ConfigError, match="mode 644"):
        read(link)


def test_a_link_that_leads_nowhere_or_to_itself_cannot_be_read(tmp_path):
    for name, leads_to in (("gone", "absent"), ("circle", "circle")):
        (tmp_path / name).symlink_to(tmp_path / leads_to)
        with pytest.raises(ConfigError, match=f"{name}: cannot be read.*`make key` makes one"):
            read(tmp_path / name)


def test_what_is_no_file_cannot_be_read(tmp_path):
    for path in (tmp_path, tmp_path / "absent", tmp_path / "absent" / "k"):
        with pytest.raises(ConfigError, match="cannot be read"):
            read(path)


def test_a_file_that_is_too_large_is_no_key(secret):
    secret.write_bytes(bytes(LARGEST_BYTES))
    assert len(read(secret)) == LARGEST_BYTES

    secret.write_bytes(bytes(LARGEST_BYTES + 1))
    with pytest.raises(ConfigError, match="no key"):
        read(secret)


def test_what_never_ends_and_everyone_may_read_is_refused_unread():
    with pytest.raises(ConfigError, match="others may read"):
        read("/dev/zero")


def test_a_secret_may_come_through_a_pipe(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe, 0o600)
    writer = threading.Thread(target=pipe.write_bytes, args=(b"content",))
    writer.start()

    assert read(pipe) == b"content"
    writer.join()


def test_both_kinds_of_key_are_read_this_way(tmp_path):
    ADA.save(tmp_path / "signing")
    new_share(tmp_path / "share")
    for name, load, command in (
        ("signing", SigningKey.load, "specdecode keys new"),
        ("share", read_share, "specdecode vault key"),
    ):
        load(tmp_path / name)
        (tmp_path / name).chmod(0o640)
        with pytest.raises(ConfigError, match="others may read this key"):
            load(tmp_path / name)
        with pytest.raises(ConfigError, match=f"`{command}"):
            load(tmp_path / "absent")
