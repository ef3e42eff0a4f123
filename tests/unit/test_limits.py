"""Each limit: its default, its edges, and that a session may only lower it."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codemode.errors import InvalidRequest
from codemode.limits import MIB, Limits

DEFAULTS = {
    "max_source_bytes": MIB,
    "max_tool_input_bytes": MIB,
    "max_tool_result_bytes": 8 * MIB,
    "max_store_bytes": 4 * MIB,
    "memory_mb": 256,
    "cpu_ms": 60_000,
    "lifetime_ms": 3_600_000,
    "max_undelivered_bytes": 8 * MIB,
    "max_output_bytes": 64 * MIB,
    "max_output_tokens": 100_000,
    "max_tool_calls": 4096,
    "max_in_flight": 64,
    "max_processes_session": 64,
    "user_shell_ms": 3_600_000,
    "approval_ms": 3_600_000,
    "max_cells_session": 64,
    "max_cells_server": 512,
    "max_sessions_key": 64,
    "max_cells_key": 512,
    "execs_per_minute_key": 60_000,
    "max_followers_key": 256,
    "idle_ms": 900_000,
    "max_kept_bytes": 256 * MIB,
    "keep_ms": 900_000,
    "session_idle_ms": 604_800_000,
    "keep_events_ms": 86_400_000,
    "max_journal_mb": 1024,
}
OF_THE_SERVER = ["max_cells_server", "max_sessions_key", "max_cells_key", "execs_per_minute_key", "session_idle_ms"]
OF_THE_SERVER += ["max_followers_key", "keep_events_ms", "max_journal_mb"]
OF_A_SESSION = [name for name in DEFAULTS if name not in OF_THE_SERVER]
LEAST = dict.fromkeys(DEFAULTS, 1) | {
    "max_store_bytes": 0,
    "max_processes_session": 0,
    "memory_mb": 16,
    "max_output_tokens": 0,
    "max_tool_calls": 0,
    "max_kept_bytes": 0,
    "keep_ms": 0,
    "keep_events_ms": 0,
}


NO_NUMBERS = ["", "x", "1.5", "-5", "5 MB", "1e3", "0x10", "²", "9" * 5000]


def refusal(*settings: str) -> str:
    with pytest.raises(InvalidRequest) as caught:
        Limits.parse(settings)
    return caught.value.detail


def session_refusal(limits: Limits, **wanted: int) -> str:
    with pytest.raises(InvalidRequest) as caught:
        limits.lowered(wanted)
    return caught.value.detail


def test_the_defaults_are_those_of_the_contract() -> None:
    """Every number of DESIGN §10, and `max_kept_bytes`, which bounds what ended cells hold."""
    assert (Limits().as_dict(), Limits.parse([])) == (DEFAULTS, Limits())


def test_every_limit_has_a_unit_and_a_meaning() -> None:
    """The help of the command shows them."""
    assert [
        spec.name for spec in dataclasses.fields(Limits) if not (spec.metadata["unit"] and spec.metadata["meaning"])
    ] == []


@pytest.mark.parametrize("name", DEFAULTS)
def test_a_server_may_set_it_down_to_its_least(name: str) -> None:
    """The least is taken, one less is refused with the name and both numbers."""
    least = LEAST[name]
    assert Limits.parse([f"{name}={least}"]).as_dict() == DEFAULTS | {name: least}
    if least > 0:
        said = refusal(f"{name}={least - 1}")
        assert (name in said, f"is {least - 1}" in said, f"at least {least}" in said) == (True, True, True)


@pytest.mark.parametrize("name", DEFAULTS)
def test_a_server_may_raise_it(name: str) -> None:
    """A default is no ceiling for the operator."""
    assert Limits.parse([f"{name}={DEFAULTS[name] * 4}"]).as_dict() == DEFAULTS | {name: DEFAULTS[name] * 4}


@pytest.mark.parametrize("name", OF_A_SESSION)
def test_a_session_may_lower_it_and_never_raise_it(name: str) -> None:
    """The server's own value is the highest; one more is refused with the name and the ceiling."""
    value = DEFAULTS[name]
    server = Limits()
    assert server.lowered({name: value}) == server
    assert server.lowered({name: LEAST[name]}).as_dict() == DEFAULTS | {name: LEAST[name]}
    said = session_refusal(server, **{name: value + 1})
    assert (name in said, str(value + 1) in said, str(value) in said) == (True, True, True)


@pytest.mark.parametrize("name", OF_A_SESSION)
@pytest.mark.parametrize("below", [1, 10**30])
def test_a_session_may_not_go_below_the_least(name: str, below: int) -> None:
    """Nonsense is refused by name, however large."""
    said = session_refusal(Limits(), **{name: LEAST[name] - below})
    assert (name in said, f"at least {LEAST[name]}" in said) == (True, True)


@pytest.mark.parametrize("name", OF_THE_SERVER)
def test_a_session_cannot_set_what_is_the_servers(name: str) -> None:
    """Not even to the same value."""
    assert session_refusal(Limits(), **{name: DEFAULTS[name]}) == (
        f"limits.{name} is a limit of the server; a session cannot set it"
    )


def test_a_session_that_lowers_nothing_has_the_servers_limits() -> None:
    """What the operator set counts for every session."""
    server = Limits.parse(["cpu_ms=5", "memory_mb=32"])
    assert server.lowered({}) == server


@pytest.mark.parametrize("name", ["", "Memory_mb", "memory", "as_dict", "__class__", "max_cells"])
def test_an_unknown_limit_is_refused_with_those_that_exist(name: str) -> None:
    """From the command line and in a session alike."""
    for said in (refusal(f"{name}=5"), session_refusal(Limits(), **{name: 5})):
        assert (repr(name) in said, "memory_mb" in said) == (True, True)


@pytest.mark.parametrize(
    "setting",
    ["", "memory_mb", "memory_mb:5", *(f"memory_mb={value}" for value in NO_NUMBERS)],
    ids=lambda setting: setting[:20],
)
def test_a_setting_that_cannot_be_read_is_refused(setting: str) -> None:
    """What the operator typed is named, not a traceback shown."""
    assert "memory_mb" in (refusal(setting) if setting else "memory_mb" + refusal(setting))


@pytest.mark.parametrize("setting", [f"memory_mb={10**15}", f"cpu_ms={10**30}"])
def test_a_number_that_no_machine_has_is_refused_at_the_start(setting: str) -> None:
    """Taken, it would overflow in the system's calls of every single cell, which fail as `worker_crashed`."""
    assert setting.partition("=")[0] in refusal(setting)


def test_blanks_around_a_setting_do_not_matter_and_the_last_one_counts() -> None:
    """As shells and files may bring them."""
    assert Limits.parse([" cpu_ms = 7 ", "cpu_ms=8"]) == Limits(cpu_ms=8)


@given(st.dictionaries(st.sampled_from(OF_A_SESSION), st.integers(-5, 10**9)))
def test_a_session_never_has_more_than_its_server(wanted: dict[str, int]) -> None:
    """Whatever it asks for, it is refused or has at most the server's."""
    server = Limits()
    try:
        session = server.lowered(wanted)
    except InvalidRequest:
        assert any(not LEAST[name] <= value <= DEFAULTS[name] for name, value in wanted.items())
        return
    assert session.as_dict() == DEFAULTS | wanted
    assert all(value <= DEFAULTS[name] for name, value in session.as_dict().items())
