"""Scripts that do their worst: floods of everything, and builtins replaced by traps. It ends that cell at most."""

from __future__ import annotations

import pytest

from tests.faults.rig import Service, texts, watched
from tests.faults.tally import Tally
from tests.faults.test_stopping import Call

KINDS = {
    "script_error",
    "syntax_error",
    "out_of_memory",
    "cpu_limit",
    "deadline",
    "output_limit",
    "tool_call_limit",
    "deadlock",
    "worker_crashed",
}
SMALL = {"memory_mb": 64, "cpu_ms": 1000, "lifetime_ms": 60_000, "max_output_bytes": 4_000_000, "max_tool_calls": 200}

# What it floods, and the ways in which that may end. "worker_crashed" is none of them: each has a limit of its own.
FLOODS: dict[str, tuple[str, set[str]]] = {
    "lines": ("for (;;) text('x')", {"output_limit", "cpu_limit"}),
    "long lines": ("const s = 'x'.repeat(1_000_000); for (;;) text(s)", {"output_limit"}),
    "wide lines": ("const s = '😀中'.repeat(100_000); for (;;) text(s)", {"output_limit"}),
    "images": ("const u = 'data:image/png;base64,' + 'A'.repeat(500_000); for (;;) image(u)", {"output_limit"}),
    "notifications": ("for (;;) notify('x'.repeat(1000))", {"output_limit", "cpu_limit"}),
    "yields": ("for (;;) yield_control()", {"cpu_limit"}),
    "timers": ("for (;;) setTimeout(() => {}, 1)", {"out_of_memory", "cpu_limit"}),
    "timers that set timers": (
        "const f = () => { setTimeout(f); setTimeout(f) }; f(); await new Promise(() => {})",
        {"out_of_memory", "cpu_limit", "deadline"},
    ),
    "promises": ("const p = []; for (;;) p.push(new Promise(() => {}))", {"out_of_memory", "cpu_limit"}),
    "microtasks": ("const f = () => Promise.resolve().then(f); await f()", {"cpu_limit", "out_of_memory"}),
    "growing microtasks": (
        "const f = () => { Promise.resolve().then(f); Promise.resolve().then(f) }; f(); await null",
        {"cpu_limit", "out_of_memory"},
    ),
    "calls": ("for (;;) tools.echo({})", {"tool_call_limit"}),
    "awaited calls": ("for (;;) await tools.echo({})", {"tool_call_limit"}),
    "calls of nothing": (
        "for (;;) { try { await tools.echo(1) } catch {} }",
        {"cpu_limit", "out_of_memory", "deadline"},
    ),
    "calls with large inputs": (
        "for (let i = 0; ; i++) tools.never({value: 'x'.repeat(900_000)})",
        {"tool_call_limit", "cpu_limit"},
    ),
    "rejections": ("for (;;) Promise.reject(new Error('x'))", {"out_of_memory", "cpu_limit"}),
    "stored values": ("for (let i = 0; ; i++) store('k' + i, 'x'.repeat(1000))", {"script_error"}),
    "stored and deleted values": (
        "for (let i = 0; ; i++) { store('k' + i, 1); store('k' + i, undefined) }",
        {"cpu_limit", "deadline"},
    ),
    "one value": ("for (let i = 0; ; i++) store('k', 'x'.repeat(1_000_000))", {"cpu_limit", "deadline"}),
    "errors": ("let e; for (;;) e = new Error('x', {cause: e})", {"out_of_memory", "cpu_limit"}),
    "an endless cause": ("const e = new Error('x'); e.cause = e; throw e", {"script_error"}),
    "a long message": ("throw new Error('x'.repeat(50_000_000))", {"script_error", "out_of_memory"}),
    "weak references": ("const r = []; for (;;) r.push(new WeakRef({}))", {"out_of_memory", "cpu_limit"}),
    "a regular expression": ("/(a+)+$/.test('a'.repeat(50) + '!')", {"cpu_limit"}),
    "code": ("for (let i = 0; ; i++) new Function('return ' + i)", {"cpu_limit", "out_of_memory"}),
    "deep nesting": ("let o = {}; for (let i = 0; i < 1_000_000; i++) o = {o}; text(o); throw o", {"script_error"}),
    "a deep source": ("eval('['.repeat(1_000_000))", {"script_error"}),
    "getters": (
        "const o = {get a() { return o }, toJSON() { return {a: this.a, b: this.a} }}; text(o)",
        {"script_error", "cpu_limit", "out_of_memory", "completed"},
    ),
    "proxies": (
        "let p = {}; for (let i = 0; i < 100_000; i++) p = new Proxy(p, {}); text(p); throw p",
        {"script_error"},
    ),
}


QUICK = ["lines", "images", "calls", "stored values", "errors", "a long message", "deep nesting", "proxies"]


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in QUICK else pytest.mark.slow) for name in FLOODS]
)
def test_a_flood_ends_its_own_cell(server: Service, name: str, tally: Tally) -> None:
    """By a limit of its own, in time, with a neighbour that goes on; and the service answers others meanwhile."""
    source, ends = FLOODS[name]
    neighbour = server.session()
    cell_id = server.exec("text(await tools.sleep({ms: 300}))", neighbour, yield_time_ms=0)["cell_id"]
    session = server.session(limits=SMALL)
    end = server.exec(f"text('before');{source}", session, yield_time_ms=0)
    while end["status"] == "running":
        end = server.wait(end["cell_id"], session, yield_time_ms=15_000)
    kind = end["error"]["kind"] if end["error"] else end["status"]
    beside = server.wait(cell_id, neighbour)["status"]
    tally.add("floods of output, calls, timers, promises and the like", disturbed=beside != "completed")
    assert kind in ends, end["error"]
    assert beside == "completed"
    assert server.exec("text(1)", session)["status"] == "completed"


EIGHT = ["lines", "images", "yields", "timers", "calls of nothing", "stored and deleted values", "promises"]
EIGHT += ["notifications"]


@pytest.mark.slow
@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "names",
    [["lines"] * 4, ["stored and deleted values"] * 4, ["promises"] * 8, EIGHT],
    ids=["lines", "stored values", "promises", "eight kinds"],
)
def test_floods_at_the_same_time_leave_the_service_responsive(
    server: Service, names: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """More of them than processors, while somebody else asks how it is; the figure is printed."""
    sessions = [server.session(limits=SMALL) for _ in names]
    with watched(server) as seen:
        calls = [
            Call(server, "exec", session, source=FLOODS[name][0], yield_time_ms=20_000)
            for session, name in zip(sessions, names, strict=True)
        ]
        answers = [call.result(30).json() for call in calls]
    with capsys.disabled():
        print(
            f"\n  {len(names)} floods ({names[0]} …): /healthz answered within {seen.worst_ms} ms (of {seen.count})",
            end="",
        )
    assert {answer["status"] for answer in answers} <= {"failed", "running"}
    assert (seen.count > 10, seen.worst_ms < 500) == (True, True)


REPLACE_EVERYTHING = """
    const trap = function () { throw new Error('a trap') };
    const seen = new Set([globalThis]);
    const queue = [globalThis];
    let replaced = 0;
    const own = Reflect.ownKeys, describe = Reflect.getOwnPropertyDescriptor, define = Reflect.defineProperty;
    const kept = new Set(['tools', 'ALL_TOOLS', 'text', 'store', 'load', 'exit', 'setTimeout', 'Reflect']);
    const later = [];
    for (let at = 0; at < queue.length; at++) {
      for (const key of own(queue[at])) {
        if (queue[at] === globalThis && kept.has(key)) continue;
        const property = describe(queue[at], key);
        if (!property) continue;
        for (const value of [property.value, property.get, property.set]) {
          if ((typeof value === 'object' && value !== null) || typeof value === 'function') {
            if (!seen.has(value)) { seen.add(value); queue.push(value) }
          }
        }
        if (property.configurable || property.writable) later.push([queue[at], key, property]);
      }
    }
    for (let i = 0; i < later.length; i++) {
      const object = later[i][0], key = later[i][1], property = later[i][2];
      if (typeof property.value === 'function') replaced += define(object, key, {value: trap}) ? 1 : 0;
      else if (property.get) replaced += define(object, key, {get: trap, set: trap}) ? 1 : 0;
    }
    text('replaced ' + (replaced > 500));
"""


@pytest.mark.parametrize(
    ("behind", "ends"),
    [
        ("text({a: [1]});", {"completed", "failed"}),
        ("store('k', 1); text(load('k'));", {"completed", "failed"}),
        ("text(await tools.echo({value: 1}));", {"completed", "failed"}),
        ("try { await tools.cancelled({}) } catch { text('caught') }", {"completed", "failed"}),
        ("throw new Error('x');", {"failed"}),
        ("exit();", {"completed"}),
        ("null.x;", {"failed"}),
        ("await new Promise(() => {});", {"failed", "completed"}),
        ("for (;;) {}", {"failed", "terminated"}),
    ],
)
def test_every_builtin_replaced_by_a_trap(server: Service, behind: str, ends: set[str], tally: Tally) -> None:
    """Thousands of them: that script may fail, its output so far is there, and no other script notices."""
    session = server.session(limits={"cpu_ms": 700, "lifetime_ms": 60_000})
    end = server.exec(REPLACE_EVERYTHING + behind, session)
    assert (end["status"] in ends, texts(end)[:1]) == (True, ["replaced true"]), end
    assert end["error"] is None or end["error"]["kind"] in KINDS - {"worker_crashed"}, end["error"]
    fresh = server.exec(
        "text([1, 2].map((x) => x * 2)); text(await tools.echo({value: {a: 1}})); text(load('k'))", session
    )
    tally.add("scripts that replace builtins by traps", disturbed=fresh["status"] != "completed")
    assert (fresh["status"], texts(fresh)[:2]) == ("completed", ["[2,4]", '{"a":1}'])


@pytest.mark.parametrize(
    "source",
    [
        "Object.prototype.then = function (f) { f(1) }; text(await tools.echo({value: 5}))",
        "Object.defineProperty(Object.prototype, 'status', {get() { throw 1 }, set() { throw 2 }}); text(1)",
        "Object.prototype.toJSON = () => { throw 1 }; throw {a: 1}",
        "Error.prepareStackTrace = () => { for (;;) {} }; throw new Error('x')",
        "Error.stackTraceLimit = Infinity; (function f() { f() })()",
        "Error.captureStackTrace = 5; await tools.cancelled({})",
        "globalThis.Promise = class { constructor() { throw 1 } }; await tools.echo({})",
        "Promise.prototype.then = () => {}; Promise.resolve = 5; text(await tools.echo({value: 1}))",
        "Promise.prototype.constructor = {[Symbol.species]: function () { throw 1 }}; text(await tools.echo({value: 1}))",
        "Array.prototype[Symbol.iterator] = function* () { for (;;) yield 1 }; text([1]); text(new Map([[1, 2]]))",
        "Object.defineProperty(Array.prototype, '0', {set() { throw 1 }, get() { throw 2 }}); text([1]); tools.echo({})",
        "String.prototype.charCodeAt = () => 1e9; text('abc😀')",
        "Symbol.prototype[Symbol.toPrimitive] = () => { throw 1 }; throw Symbol('x')",
        "for (const k of Reflect.ownKeys(globalThis)) try { delete globalThis[k] } catch {} ; text(1)",
        "Object.freeze(globalThis); Object.freeze(Object.prototype); text(await tools.echo({value: 1}))",
        "Object.setPrototypeOf(globalThis, new Proxy({}, {get() { throw 1 }, has() { throw 1 }})); text(1)",
        "throw new Proxy({}, {get() { throw 1 }, getPrototypeOf() { throw 2 }, ownKeys() { throw 3 }})",
        "throw new Proxy(function () {}, {get() { for (;;) {} }})",
        "throw Object.defineProperty(new Error('x'), 'stack', {get() { throw new Error('y') }})",
        "throw Object.defineProperty(new Error('x'), 'stack', {value: '\\ud83d'})",
        "const o = {['\\ud800']() { throw new Error('x') }}; o['\\ud800']()",
        "throw new Error('a' + '😀'.repeat(40_000))",
        "throw new Error('😀'.repeat(40_000))",
        "throw '\\ud800'",
        "throw {['\\udfff']: '\\ud800'}",
        "throw Object.assign(new Error('x'), {name: '\\ud800', '\\udc00': '\\ud800'})",
        "throw new AggregateError([new Error('\\ud800'), '\\udfff'], '\\ud83d')",
        "text('\\ud800'); notify('\\udfff x'); image('data:image/png;base64,\\ud800')",
        "content({type: 'text', text: '\\ud800'})",
        "try { await tools.echo({value: '\\ud800', '\\udfff': 1}) } catch (e) { text(e.message) }",
        "const r = await tools.echo({value: ['\\ud83d']}); text(r)",
    ],
)
def test_a_trick_spoils_its_own_script_at_most(server: Service, source: str, tally: Tally) -> None:
    """It completes or fails for a reason, never because its process broke, and the next script runs as usual."""
    session = server.session(limits={"cpu_ms": 700, "lifetime_ms": 60_000})
    response = server.post("exec", session, source=source)
    assert response.status_code == 200, response.text
    end = response.json()
    assert end["error"] is None or end["error"]["kind"] in KINDS - {"worker_crashed"}, end["error"]
    fresh = server.exec("text([1].map(String)); throw new Error('as usual')", session)
    tally.add("scripts that replace builtins by traps", disturbed=texts(fresh) != ['["1"]'])
    assert (texts(fresh), fresh["error"]["message"]) == (['["1"]'], "as usual")


@pytest.mark.parametrize("tool", ["leave", "leave_from_a_thread", "cancelled"])
def test_a_tool_cannot_end_the_service(server: Service, tool: str) -> None:
    """One that calls sys.exit, or raises what looks like a cancellation, fails its call; the script goes on."""
    end = server.exec(f"try {{ await tools.{tool}({{}}) }} catch (e) {{ text(e.name) }} text('on')", yield_time_ms=3000)
    assert (end["status"], texts(end)) == ("completed", ["ToolError", "on"])


def test_a_client_call_with_odd_input_can_be_told_and_resolved(server: Service) -> None:
    """A lone surrogate in it reaches the caller as an escape or as U+FFFD, and the answer is sent."""
    session = server.session(tools=[{"name": "caller"}])
    response = server.post(
        "exec", session, source="text(await tools.caller({a: '\\ud800', '\\udfff': 1}))", yield_time_ms=5000
    )
    assert (response.status_code, len(response.json()["pending_tool_calls"])) == (202, 1)
    result = {"cell_id": "1", "runtime_tool_call_id": "call-1", "output": "well"}
    end = server.post("tool_results", session, results=[result], cell_id="1").json()
    assert (end["status"], texts(end)) == ("completed", ["well"])


def test_a_key_that_is_no_utf_8_spoils_no_session(server: Service) -> None:
    """A script stores under a lone surrogate; later scripts of the session run and places for cells are not lost."""
    session = server.session(limits={"max_cells_session": 2})
    server.post("exec", session, source="store('\\ud800', 1); store('fine', 2)")
    ends = [server.post("exec", session, source="text(load('fine'))") for _ in range(4)]
    assert [(end.status_code, texts(end.json())) for end in ends] == [(200, ["2"])] * 4


def test_callbacks_of_the_engine_cannot_hold_up_their_process(server: Service, tally: Tally) -> None:
    """They may put out more than is read at that moment: the script goes on, where its process used to hang."""
    source = """
        const registry = new FinalizationRegistry(() => text("gone"));
        for (let i = 0; i < 300_000; i++) registry.register({});
        await new Promise((resolve) => setTimeout(resolve, 100));
        notify("here");
    """
    end = server.exec(source, yield_time_ms=15_000)
    tally.add("floods of output, calls, timers, promises and the like", lost=end["status"] != "completed")
    assert (end["status"], [each["text"] for each in end["notifications"]]) == ("completed", ["here"])
