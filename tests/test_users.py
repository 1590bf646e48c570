"""Users of the settings: who is let in, and what a bad setting says."""

from __future__ import annotations

import hashlib

import pytest

from goblin_raft.config import BadSetting, Config
from goblin_raft.users import BadUsers, Users


def test_without_users_everybody_is_the_default_user():
    users = Users()
    assert not users.required
    assert users.admits(b"default", b"anything")
    assert not users.admits(b"somebody", b"anything")
    assert users.names() == [b"default"]
    assert users.login is None


def test_a_user_needs_its_own_password():
    users = Users("default=one, app=two=2,")
    assert users.required
    assert users.admits(b"default", b"one")
    assert users.admits(b"app", b"two=2")
    for name, password in [(b"app", b"one"), (b"app", b""), (b"nobody", b"one"), (b"", b"")]:
        assert not users.admits(name, password)
    assert users.names() == [b"app", b"default"]
    assert users.login == ("default", "one")


def test_a_password_may_be_given_as_its_digest():
    users = Users("app=sha256:" + hashlib.sha256(b"secret").hexdigest())
    assert users.admits(b"app", b"secret")
    assert not users.admits(b"app", b"wrong")
    assert users.login is None


@pytest.mark.parametrize(
    "text, problem",
    [
        ("app", "entry 1"),
        ("app=", "entry 1"),
        ("=geheim", "entry 1"),
        ("a=geheim,two words=geheim", "entry 2"),
        ("a=geheim,a=geheim", "twice"),
        ("a=sha256:geheim", "64"),
        ("a=sha256:" + "F" * 64, "64"),
    ],
)
def test_a_bad_setting_is_refused_and_its_passwords_are_not_repeated(text, problem):
    with pytest.raises(BadUsers, match=problem) as refused:
        Users(text)
    assert "geheim" not in str(refused.value)
    with pytest.raises(BadSetting):
        Config(users=text)
