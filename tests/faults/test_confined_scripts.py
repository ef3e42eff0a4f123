"""What scripts may rely on works as before behind the filter of system calls: nothing is loaded or opened late."""

from __future__ import annotations

import sys

import pytest

from tests.faults.rig import Service, texts

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the filter is Linux's")

ZONES = """
for (const timeZone of ["UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "Asia/Tokyo"])
  text(new Intl.DateTimeFormat("en-GB", {timeZone, dateStyle: "short", timeStyle: "long"}).format(1720000000000));
"""
LOCALES = """
const at = new Date(1720000000000);
for (const locale of ["de", "ja", "ar-EG", "th-TH-u-ca-buddhist", "hi", "zh-Hant"])
  text([at.toLocaleDateString(locale, {timeZone: "UTC", dateStyle: "long"}), (1234.5).toLocaleString(locale)].join(" | "));
"""
OTHER_INTL = """
text(new Intl.Collator("sv").compare("ä", "z") + " " + new Intl.Collator("de").compare("ä", "z"));
text(new Intl.PluralRules("ar").select(3) + " " + new Intl.ListFormat("fr").format(["a", "b"]));
text(new Intl.RelativeTimeFormat("es").format(-2, "day") + " " + new Intl.DisplayNames("it", {type: "region"}).of("DE"));
text([...new Intl.Segmenter("th", {granularity: "word"}).segment("สวัสดีครับ")].length);
text("ﬁ".normalize("NFKC") + "İ".toLocaleLowerCase("tr") + Intl.supportedValuesOf("timeZone").length);
"""
DATES = """
text(new Date(2024, 6, 1, 12).toISOString() + " " + new Date(0).getTimezoneOffset() + " " + new Date(0).toString());
const before = Date.now(); while (Date.now() < before + 5); text(Date.now() - before < 1000);
"""
COMPILED = """
const fib = (n) => (n < 2 ? n : fib(n - 1) + fib(n - 2)); text(fib(27));
let sum = 0; for (let i = 0; i < 2e7; i++) sum = (sum + i * i) | 0; text(sum);
const f = []; for (let i = 0; i < 300; i++) f.push(new Function("x", `return x * ${i} + 1`)); text(f.reduce((a, g) => a + g(2), 0));
"""
COLLECTED = """
let kept = []; for (let round = 0; round < 30; round++) {
  kept = Array.from({length: 20_000}, (_, i) => ({i, name: "n" + i, list: [i, [i]]}));
}
text(kept.length); const map = new Map(kept.map((each) => [each.name, each])); kept = null; text(map.get("n19999").list[1][0]);
"""
BUFFERS = """
const b = new ArrayBuffer(16, {maxByteLength: 1 << 25}); b.resize(1 << 25); new Uint8Array(b)[(1 << 25) - 1] = 7;
text(new Uint8Array(b).at(-1)); b.resize(8); text(b.byteLength + " " + b.transfer(1 << 20).byteLength);
const many = Array.from({length: 40}, () => new Float64Array(1 << 17).fill(1.5)); text(many.length);
"""
VALUES = """
text((3n ** 20000n).toString().length); text((2n ** 64n - 1n).toString(16));
text("ab".repeat(1 << 22).replace(/b/g, "c").length); text(/^(\\p{L}+)-(?<n>\\d+)$/u.exec("größe-12").groups.n);
text(Array.from({length: 300_000}, (_, i) => (i * 7919) % 300_007).sort((a, b) => a - b)[299_999]);
text(JSON.stringify(JSON.parse("[" + "1,".repeat(200_000) + "2]")).length); text(Math.random() !== Math.random());
"""
WORKS = {
    "time zones": (
        ZONES,
        [
            "03/07/2024, 09:46:40 UTC",
            "03/07/2024, 11:46:40 CEST",
            "03/07/2024, 05:46:40 GMT-4",
            "03/07/2024, 15:16:40 GMT+5:30",
            "03/07/2024, 20:16:40 GMT+10:30",
            "03/07/2024, 18:46:40 GMT+9",
        ],
    ),
    "locales": (
        LOCALES,
        [
            "3. Juli 2024 | 1.234,5",
            "2024年7月3日 | 1,234.5",
            "٣ يوليو ٢٠٢٤ | ١٬٢٣٤٫٥",
            "3 กรกฎาคม 2567 | 1,234.5",
            "3 जुलाई 2024 | 1,234.5",
            "2024年7月3日 | 1,234.5",
        ],
    ),
    "dates": (
        DATES,
        ["2024-07-01T12:00:00.000Z 0 Thu Jan 01 1970 00:00:00 GMT+0000 (Coordinated Universal Time)", "true"],
    ),
    "compiled code": (COMPILED, ["196418", "820578176", "90000"]),
    "collections": (COLLECTED, ["20000", "19999"]),
    "buffers": (BUFFERS, ["7", "8 1048576", "40"]),
    "values": (VALUES, ["9543", "ffffffffffffffff", "8388608", "12", "300006", "400003", "true"]),
}
ENDS = {
    "memory: objects": ("const a = []; for (;;) a.push({a: 1, b: [2]})", "out_of_memory"),
    "memory: arrays": ("const a = []; for (;;) a.push(new Array(10_000).fill(1.5))", "out_of_memory"),
    "memory: strings": ("const a = []; for (;;) a.push(JSON.stringify('x'.repeat(1e5)))", "out_of_memory"),
    "memory: in a continuation": ("await null; const a = []; for (;;) a.push([a.length])", "out_of_memory"),
    "processor time": ("for (;;) {}", "cpu_limit"),
    "deadlock": ("await new Promise(() => {})", "deadlock"),
    "syntax": ("text(1\nconst", "syntax_error"),
    "error": ("null.x", "script_error"),
    "depth": ("const f = () => f() + 1; f()", "script_error"),
}


def test_the_walls_are_there(server: Service) -> None:
    """Else the tests below would show nothing."""
    assert server.client.get("/readyz").json()["sandbox"]["seccomp"] is True


@pytest.mark.parametrize("case", WORKS)
def test_scripts_work_as_before(server: Service, case: str) -> None:
    """In a process that was kept ready."""
    source, wanted = WORKS[case]
    end = server.exec(source)
    assert (end["status"], texts(end)) == ("completed", wanted), end


@pytest.mark.parametrize("case", ENDS)
def test_scripts_end_as_before(server: Service, case: str) -> None:
    """A wall is never mistaken for another end: what V8 says and does at its own abort still arrives."""
    source, kind = ENDS[case]
    limits = {"memory_mb": 64, "cpu_ms": 500 if kind == "cpu_limit" else 10_000}
    end = server.exec(source, server.session(limits=limits), yield_time_ms=15_000)
    assert (end["status"], (end["error"] or {}).get("kind")) == ("failed", kind), end


def test_a_script_that_is_not_rehearsed_works_too(server: Service) -> None:
    """More at once than there are spares: processes that were forked for a waiting script have touched less before."""
    session = server.session()
    source = "await new Promise((r) => setTimeout(r, 300));" + ZONES + OTHER_INTL
    cells = [server.exec(source, session, yield_time_ms=0)["cell_id"] for _ in range(10)]
    for cell_id in cells:
        server.wait(cell_id, session, yield_time_ms=15_000)
    ends = [server.wait(cell_id, session, after=0) for cell_id in cells]
    assert {(end["status"], len(texts(end)), texts(end)[0]) for end in ends} == {
        ("completed", 11, "03/07/2024, 09:46:40 UTC")
    }
