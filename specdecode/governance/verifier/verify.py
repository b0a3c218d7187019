#!/usr/bin/env python3
"""Re-check an evidence bundle of specdecode, with Python 3.9 or later and nothing else.

    python3 -I verify.py BUNDLE [--signer KEY] [--head SHA256] [--unsealed] [--json]

BUNDLE is the archive or the folder it was unpacked to. --signer names a key you trust (base64 of
its 32 bytes, may be repeated), --head an entry of the ledger as you know it from elsewhere.

Exit codes: 0 GO, 10 NO_GO, 11 INCONCLUSIVE, 12 INVALID (or something could not be checked),
3 TAMPERED (something contradicts something else), 2 wrong usage. VERIFY.md explains the checks.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import io
import json
import math
import re
import struct
import sys
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any, Optional

if sys.version_info < (3, 9):  # noqa: UP036 - it runs wherever the bundle's reader is
    sys.stderr.write("verify.py needs Python 3.9 or later\n")
    sys.exit(2)

Row = dict[str, Any]
Pairs = list[tuple[Row, Row]]
EXIT = {"GO": 0, "NO_GO": 10, "INCONCLUSIVE": 11, "INVALID": 12, "TAMPERED": 3}
STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "https://specdecode.dev/{}/v1"


class TamperedError(Exception):
    """Two things in the bundle contradict each other: at least one was changed."""


class UncheckedError(Exception):
    """Something could not be checked, so it counts as not in order."""


def need(condition: object, problem: str) -> None:
    """Raise TamperedError with the problem unless the condition holds."""
    if not condition:
        raise TamperedError(problem)


def sha256(data: bytes) -> str:
    """SHA-256 in hex."""
    return hashlib.sha256(data).hexdigest()


def some(items: Iterable[str]) -> str:
    """The first of them, for a message; "" when there are none."""
    names = sorted(items)
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def printable(text: str) -> str:
    """The text with what could move a terminal's cursor, or forge a line, spelled out."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


# --- the bundle and its files ---------------------------------------------------------------------


def pack(files: Mapping[str, bytes]) -> bytes:
    """The archive of these files. Nothing is compressed, so every machine writes the same bytes."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(files):
            info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            info.create_system, info.external_attr = 3, 0o100644 << 16
            archive.writestr(info, files[name])
    return out.getvalue()


def parse(data: bytes, name: str) -> Any:
    """JSON in which no key occurs twice and every number is finite."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        need(len(dict(pairs)) == len(pairs), f"{name} has a key twice")
        return dict(pairs)

    def refuse(word: str) -> float:
        raise TamperedError(f"{name} holds {word[:20]}, which is not a number")

    def finite(digits: str) -> float:
        return float(digits) if math.isfinite(float(digits)) else refuse(digits)

    try:
        return json.loads(data.decode("utf-8"), object_pairs_hook=unique, parse_constant=refuse,
                          parse_float=finite)  # fmt: skip
    except (ValueError, RecursionError) as error:
        raise TamperedError(f"{name} is not JSON: {error}") from error


class Bundle:
    """The files of a bundle by name, and what its reader trusts."""

    def __init__(self, path: Path, signers: Sequence[str] = (), head: str | None = None) -> None:
        self.files: dict[str, bytes] = {}
        self.damage: list[str] = []
        self.trusted, self.trusted_head = list(signers), head
        self._parsed: dict[str, Any] = {}
        if not path.is_dir():
            self._unpack(self._read(path) or b"")
            return
        for file in sorted(path.rglob("*")):
            if file.is_symlink():
                self.damage.append(f"{file.name} is a link")
            elif not file.is_dir() and (content := self._read(file)) is not None:
                self.files[file.relative_to(path).as_posix()] = content

    def _read(self, file: Path) -> bytes | None:
        """The bytes of a plain file; whatever is none, such as a pipe, is damage."""
        try:
            if file.is_file():
                return file.read_bytes()
            self.damage.append(f"{file.name} is no plain file")
        except OSError as error:
            self.damage.append(f"{file.name} cannot be read ({error.strerror})")
        return None

    def _unpack(self, raw: bytes) -> None:
        try:
            with zipfile.ZipFile(io.BytesIO(raw)) as archive:
                listed = archive.infolist()
                stored = [info.file_size for info in listed
                          if info.compress_type == zipfile.ZIP_STORED]  # fmt: skip
                if sum(stored) > len(raw):  # one place listed again and again: endless to read
                    self.damage.append("the archive lists more bytes than it has")
                    return
                for info in listed:
                    if info.compress_type != zipfile.ZIP_STORED:
                        self.damage.append(f"{info.filename} is compressed")
                        continue
                    try:
                        self.files[info.filename] = archive.read(info)
                    except Exception as error:  # noqa: BLE001 - zipfile raises many kinds
                        self.damage.append(f"{info.filename} cannot be read ({error})")
        except Exception as error:  # noqa: BLE001
            self.damage.append(f"the archive cannot be read ({error})")
        if not self.damage and pack(self.files) != raw:
            self.damage.append("the archive holds bytes that do not come from its files")

    def raw(self, name: str) -> bytes:
        """A file's bytes."""
        if name not in self.files:
            raise UncheckedError(f"{name} is missing")
        return self.files[name]

    def json(self, name: str) -> Any:
        """A file's JSON document."""
        if name not in self._parsed:
            self._parsed[name] = parse(self.raw(name), name)
        return self._parsed[name]

    def lines(self, name: str) -> list[bytes]:
        """A file's lines; at least one."""
        lines = self.raw(name).split(b"\n")
        need(lines.pop() == b"", f"{name}: the last line has no end")
        if not lines:
            raise UncheckedError(f"{name} has no lines")
        return lines

    @property
    def rows(self) -> list[Row]:
        """What was measured; at least one row."""
        if "rows" not in self._parsed:
            self._parsed["rows"] = [parse(line, "rows.jsonl") for line in self.lines("rows.jsonl")]
        found: list[Row] = self._parsed["rows"]
        return found

    @property
    def live(self) -> Any:
        """The stage that the rows come from, if its metrics are judged look by look; else None."""
        stages = {row["stage"] for row in self.rows}
        own = [stage for stage in self.json("plan.json")["stages"] if {stage["name"]} == stages]
        return own[0] if own and own[0]["method"] != "fixed-n" else None

    @property
    def plan(self) -> Any:
        """The plan as it stands for the stage that the rows come from."""
        plan, stages = self.json("plan.json"), {row["stage"] for row in self.rows}
        if plan["schema"] != "specdecode.plan/2":
            raise UncheckedError(f"this program does not know plans of schema {plan['schema']}")
        own = [stage for stage in plan["stages"] if {stage["name"]} == stages]
        if not own or own[0]["name"] == plan["stage"]:
            return plan
        view = {name: own[0][name] or plan[name] for name in ("missing_data", "prompts_expected")}
        chosen = own[0]["rules"]
        rules = [rule for rule in plan["rules"] if chosen is None or rule["name"] in chosen]
        return {**plan, **view, "stage": own[0]["name"], "rules": rules}


def check_archive(bundle: Bundle) -> str:
    """The archive is what its files give, byte for byte."""
    need(not bundle.damage, some(bundle.damage))
    if not bundle.files:
        raise UncheckedError("there are no files")
    return f"{len(bundle.files)} files, nothing beside them"


def check_files(bundle: Bundle) -> str:
    """Every file is listed, there and unchanged."""
    manifest = bundle.json("MANIFEST.json")
    text = json.dumps(manifest, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    need(text.encode("utf-8") == bundle.raw("MANIFEST.json"), "MANIFEST.json was edited")
    need(set(manifest) == {"schema", "files"}, "MANIFEST.json has other fields than it should")
    need(manifest["schema"] == "specdecode.bundle/1", "MANIFEST.json has an unknown schema")
    listed, found = manifest["files"], set(bundle.files) - {"MANIFEST.json", "signature.json"}
    problems = [f"{name} was added" for name in sorted(found - set(listed))]
    for name, entry in listed.items():
        if name not in found:
            problems.append(f"{name} is missing")
        elif entry != {"sha256": sha256(bundle.files[name]), "bytes": len(bundle.files[name])}:
            problems.append(f"{name} is not as MANIFEST.json lists it")
    need(not problems, "; ".join(problems))
    return f"{len(listed)} files are as MANIFEST.json lists them"


# --- plan, inputs, rows, audit --------------------------------------------------------------------


def check_plan(bundle: Bundle) -> str:
    """Inputs and verdict name this plan."""
    own, entries = sha256(bundle.raw("plan.json")), bundle.json("manifest.json")["entries"]
    judged, planned = bundle.json("verdict.json")["plan_sha256"], entries["plan_sha256"]
    need(judged == own, f"the verdict is of plan {judged[:12]}, plan.json is {own[:12]}")
    need(planned == own, f"the inputs name plan {planned[:12]}, plan.json is {own[:12]}")
    written = sha256(bundle.raw("plan.yaml"))
    need(entries.get("plan", written) == written, "plan.yaml is not the one measured for")
    return f"plan {own[:12]} is the one measured for and judged by"


def check_inputs(bundle: Bundle) -> str:
    """The inputs hash to their seal, which verdict and rows name."""
    manifest, verdict = bundle.json("manifest.json"), bundle.json("verdict.json")
    entries, seal = manifest["entries"], manifest["manifest_sha256"]
    text = json.dumps(entries, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    need(sha256(text.encode("utf-8")) == seal, "manifest.json: entries are not the sealed ones")
    strange = {str(row["manifest_sha256"])[:12] for row in bundle.rows} - {seal[:12]}
    if verdict["status"] != "INVALID":
        need(verdict["manifest_sha256"] == seal, "the verdict is of other inputs")
        need(not strange, f"rows were measured on other inputs ({some(strange)})")
    checked = sha256(bundle.raw("data_quality.json"))
    wanted = entries.get("prompts.validation", checked)
    need(wanted == checked, "data_quality.json is not of these inputs")
    return f"{len(entries)} inputs, sealed as {seal[:12]}, are those the rows name"


COLUMNS = {
    "request_id": "text", "prompt_id": "text", "arm": "run", "stage": "run", "profile": "run",
    "category": "prompt", "difficulty": "prompt", "language": "prompt", "prompt_tokens": "q",
    "prompt_token_ids": "list i", "output_tokens": "q", "output_token_ids": "list i",
    "output_text": "text", "finish_reason": "run", "sampling": "run", "seed": "q", "ttft_s": "d",
    "tpot_s": "d", "e2e_s": "d", "draft_s": "d", "verify_s": "d", "other_s": "d", "steps": "q",
    "drafted": "q", "accepted": "q", "acceptance_histogram": "list q", "target_tokens": "q",
    "peak_rss_bytes": "q", "error": "text", "quality": "d", "order_index": "q", "started_at": "q",
    "manifest_sha256": "run",
}  # fmt: skip
"""What a row has, in order: numbers and lists by their format in `struct`, text that is a label of
the run or of the prompt, and other text."""


def row_hash(row: Row) -> bytes:
    """SHA-256 of a row's bytes, which specdecode.measurement.encoding describes."""
    need(set(row) == set(COLUMNS), f"a row has other fields than it should: {some(row)}")
    nulls, numbers, sizes, data = 0, b"", b"", b""
    labels = {"run": hashlib.sha256(), "prompt": hashlib.sha256()}
    for place, (name, kind) in enumerate(COLUMNS.items()):
        value = row[name]
        nulls |= (value is None) << place
        if name == "sampling":
            value = json.dumps(value, sort_keys=True, ensure_ascii=False)
        if name == "started_at" and value is not None:
            value = (when(value) - datetime(1970, 1, 1)) // timedelta(microseconds=1)
        if kind in ("q", "d"):
            numbers += struct.pack("<" + kind, 0 if value is None else value)
            continue
        if kind.startswith("list"):
            found = struct.pack(f"<{len(value or ())}{kind[-1]}", *(value or ()))
        else:
            found = (value or "").encode("utf-8")
        size = -1 if value is None else len(found)
        if kind in labels:
            labels[kind].update(struct.pack("<q", size) + found)
        else:
            sizes, data = sizes + struct.pack("<i", size), data + found
    fixed = numbers + labels["run"].digest() + labels["prompt"].digest() + sizes
    return hashlib.sha256(struct.pack("<Q", nulls) + fixed + data).digest()


def rows_digest(rows: Iterable[Row]) -> str:
    """The digest by which audit and verdict name their rows; specdecode.measurement.digest."""
    return sha256(b"specdecode.rows/2\n" + b"".join(sorted(row_hash(row) for row in rows)))


def merkle_root(leaves: Sequence[bytes]) -> bytes:
    """Root of the tree of RFC 6962, section 2.1, whose leaves are hashed already."""
    if len(leaves) == 1:
        return leaves[0]
    half = 1 << (len(leaves) - 1).bit_length() - 1
    pair = merkle_root(leaves[:half]) + merkle_root(leaves[half:])
    return hashlib.sha256(b"\x01" + pair).digest()


def check_rows(bundle: Bundle) -> str:
    """Audit and verdict are of these rows."""
    verdict, record = bundle.json("verdict.json"), bundle.json("record.json")["rows"]
    lines, named = bundle.lines("rows.jsonl"), str(verdict["rows_sha256"])
    audited = str(bundle.json("audit.json")["rows_sha256"])
    if verdict["status"] != "INVALID":
        need(audited == named, f"the audit is of rows {audited[:12]}, the verdict of {named[:12]}")
    if record["form"] == "full":
        own = rows_digest(bundle.rows)
        need(named == own, f"the verdict is of rows {named[:12]}, these are {own[:12]}")
        spelled = [json.dumps(row, sort_keys=True, ensure_ascii=False) for row in bundle.rows]
        need(lines == [text.encode("utf-8") for text in spelled], "rows.jsonl is spelled otherwise")
        need(lines == sorted(lines), "rows.jsonl is not in order")
        return f"{len(lines)} rows {own[:12]} are those audited and judged"
    leaves = [bytes.fromhex(leaf) for leaf in bundle.raw("rows.leaves").decode("ascii").split()]
    need(len(leaves) == len(lines), f"{len(leaves)} hashes stand for {len(lines)} rows")
    need(merkle_root(leaves).hex() == record["root"], "the rows' hashes do not give their root")
    shown = bundle.json("rows.shown.json")
    for entry in shown:
        index, line = entry["index"], entry["line"].encode("utf-8")
        leaf = hashlib.sha256(b"\x00" + bytes.fromhex(entry["salt"]) + line).digest()
        need(leaf == leaves[index], f"row {index} was shown with another text than its hash is of")
        whole = parse(line, "a shown row")
        public = {name: whole[name] for name in whole if name not in record["withheld"]}
        need(public == parse(lines[index], "rows.jsonl"), f"row {index} differs from its full text")
    return (
        f"{len(lines)} rows without {', '.join(record['withheld'])}: their digest {named[:12]} "
        f"cannot be recomputed; {len(shown)} were shown in full and fit their hashes"
    )


def check_audit(bundle: Bundle) -> str:
    """Each arm's word is what its log e-value and its greedy rows lead to."""
    audit = bundle.json("audit.json")
    limit = math.log(1 / audit["alpha"])
    for arm, report in audit["arms"].items():
        word, sampled, greedy = report["verdict"], report["sampled"], report["greedy"]
        highest, read = report["max_log_e_value"], report["tokens_read"]
        biased = highest >= limit or bool(sampled and sampled["impossible"])
        words = {part["verdict"] for part in (sampled, greedy) if part}
        need(report["alpha"] == audit["alpha"], f"{arm} was audited at another alpha")
        need(highest >= report["log_e_value"], f"{arm}: log e-value above its maximum")
        need(bool(sampled) == bool(read), f"{arm}: tokens read and their finding disagree")
        need((report["first_evidence"] is not None) == biased, f"{arm}: evidence and log e-value")
        if sampled:
            need(sampled["tokens"] == read, f"{arm}: tokens read disagree")
            need((sampled["verdict"] == "biased") == biased, f"{arm}: its word is not its log e's")
            need(sampled["verdict"] != "lossless" or read >= report["min_tokens"],
                 f"{arm}: too few tokens were read to call it lossless")  # fmt: skip
        if greedy and greedy["verdict"] == "lossless":
            need(not greedy["failures"] and greedy["tokens"] >= greedy["min_tokens"],
                 f"{arm}: greedy rows are not as good as their word")  # fmt: skip
        worst = "biased" if "biased" in words else "undecided"
        calm = words == {"lossless"} and not report["rows"]["unjudged"]
        need(
            word == worst or (calm and word == "lossless"), f"{arm}: '{word}' is not its findings'"
        )
    if not audit["arms"]:
        raise UncheckedError("the audit is of no arm")
    return f"words of {some(audit['arms'])} follow from log e-values against {limit:.4f}"


# --- are the rows the planned evidence? -----------------------------------------------------------


def setting(row: Row) -> str:
    """Name of a row's sampling setting."""
    return str(row["sampling"]["name"])


def greedy(row: Row) -> bool:
    """Whether greedy decoding was asked for."""
    return bool(row["sampling"].get("temperature", 1.0) == 0)


def baseline_of(plan: Any) -> str:
    """Name of the baseline arm."""
    return next(str(arm["name"]) for arm in plan["arms"] if arm["role"] == "baseline")


def plus(left: Any, right: Any, sign: int = 1) -> Any:
    """Sum (or difference), None where something is missing."""
    return None if left is None or right is None else left + sign * right


def parts(metric: str, row: Row) -> tuple[float, float] | None:
    """Numerator and denominator of a metric in one row, None where it has no value."""
    tokens, steps = row["output_tokens"], row["steps"]
    top, bottom = {
        "ttft_s": (row["ttft_s"], 1),
        "tpot_s": (plus(row["e2e_s"], row["ttft_s"], -1), plus(tokens, -1)),
        "e2e_s": (row["e2e_s"], 1),
        "output_tokens_per_s": (tokens, row["e2e_s"]),
        "mean_acceptance_length": (plus(steps, row["accepted"]), steps),
        "target_tokens_per_output_token": (row["target_tokens"], tokens),
        "quality": (row["quality"], 1),
        "output_tokens": (tokens, 1),
        "acceptance_rate": (row["accepted"], row["drafted"]),
        "output_tokens_per_step": (tokens, steps),
        "draft_share": (row["draft_s"], row["e2e_s"]),
        "verify_share": (row["verify_s"], row["e2e_s"]),
        "other_share": (row["other_s"], row["e2e_s"]),
    }[metric]
    usable = row["error"] is None and top is not None and bottom is not None and bottom > 0
    return (top, bottom) if usable else None


def agrees(row: Row) -> bool:
    """Whether the numbers of one row fit each other."""
    steps, accepted, histogram = row["steps"], row["accepted"], row["acceptance_histogram"]
    ttft, e2e, drafted, tokens = row["ttft_s"], row["e2e_s"], row["drafted"], row["output_tokens"]
    asked, tpot, told = row["sampling"].get("max_tokens"), parts("tpot_s", row), row["tpot_s"]
    if asked is not None and tokens is not None:
        whole = isinstance(asked, int)
        if not whole or tokens > asked or (row["finish_reason"] == "length" and tokens < asked):
            return False
    if histogram and steps is not None and sum(histogram) != steps:
        return False
    counted = None if histogram is None else sum(i * count for i, count in enumerate(histogram))
    if None not in (counted, accepted) and counted != accepted:
        return False
    if (drafted is not None and accepted is not None and accepted > drafted) or (
        ttft is not None and e2e is not None and ttft > e2e
    ):
        return False
    own = told if tpot is None else tpot[0] / tpot[1]
    return told is None or math.isclose(told, own, rel_tol=1e-3, abs_tol=1e-6)


def gaps(plan: Any, rows: list[Row]) -> list[str]:
    """Requests without a row, or without a number that is needed, in some arm."""
    found, by_key = [], {(row["prompt_id"], setting(row), row["arm"]): row for row in rows}
    for prompt in {row["prompt_id"] for row in rows}:
        for name in plan["sampling"]:
            group = [(by_key.get((prompt, name, arm["name"])), arm) for arm in plan["arms"]]
            whole = [(row, arm["draft"]) for row, arm in group if row and row["error"] is None]
            lacking = any(
                row[field] is None
                for row, drafts in whole
                for field in ("output_tokens", "ttft_s", "e2e_s")
                + (("steps", "drafted", "accepted") if drafts else ())
            )
            scored = {row["quality"] is None for row, _ in whole}
            if lacking or len(scored) > 1 or any(row is None for row, _ in group):
                found.append(f"{prompt}/{name}")
    return found


def differing(rows: list[Row]) -> set[str]:
    """Prompts on which the arms had other tokens, settings or labels."""
    seen: dict[Any, Any] = {}
    found = set()
    for row in rows:
        asked = sorted((k, json.dumps(v)) for k, v in row["sampling"].items() if k != "seed")
        labels = [row["category"], row["difficulty"], row["language"]]
        request, tokens = (row["prompt_id"], setting(row)), row.get("prompt_token_ids")
        own: dict[str, Any] = {"saw": [asked, labels]}
        if row["error"] is None or tokens is not None:  # of a failure they may be unknown
            own["prompt"] = tokens
        if any(seen.setdefault((request, name), each) != each for name, each in own.items()):
            found.add(row["prompt_id"])
    return found


def misconfigured(arm: Any, rows: list[Row]) -> bool:
    """Whether an arm did not draft as the plan says."""
    own = [row for row in rows if row["arm"] == arm["name"] and row["error"] is None]
    drafted, gamma = sum(row["drafted"] or 0 for row in own), arm["num_speculative_tokens"]
    sizes = {len(r["acceptance_histogram"]) for r in own if r["acceptance_histogram"]}
    return bool((own and bool(drafted) != bool(arm["draft"])) or (gamma and sizes - {gamma + 1}))


def integrity(bundle: Bundle) -> dict[str, str]:
    """What is wrong with the rows as evidence for the plan, by check; "" where nothing is."""
    plan, rows, arms = bundle.plan, bundle.rows, bundle.plan["arms"]
    allowed = plan["missing_data"]["max_missing_share"]
    names = Counter(row["request_id"] for row in rows)
    unique = {(row["prompt_id"], setting(row), row["arm"]) for row in rows}
    requests = len({row["prompt_id"] for row in rows}) * len(plan["sampling"])
    baseline = [row for row in rows if row["arm"] == baseline_of(plan)]
    failed = [row["request_id"] for row in baseline if row["error"] is not None]
    broken = bool(baseline) and len(failed) / len(baseline) > allowed
    missing = gaps(plan, rows)
    misnamed = (row["request_id"] for row in rows if setting(row) in ("greedy", "sampled")
                and greedy(row) != (setting(row) == "greedy"))  # fmt: skip

    def exactly(wanted: Iterable[str], found: Iterable[str]) -> str:
        return some(set(wanted) ^ set(found))

    return {
        "rows_present": "" if rows else "no rows",
        "unique": "" if len(unique) == len(names) == len(rows) else "rows occur twice",
        "manifest": exactly([bundle.json("manifest.json")["manifest_sha256"]],
                            (row["manifest_sha256"] for row in rows)),
        "audit_of_these_rows": exactly([str(bundle.json("audit.json")["rows_sha256"])],
                                       [str(bundle.json("verdict.json")["rows_sha256"])]),
        "plan_of_these_rows": "",  # the check of the plan said so
        "arms": exactly((arm["name"] for arm in arms), (row["arm"] for row in rows)),
        "sampling": exactly(plan["sampling"], map(setting, rows)) or some(misnamed),
        "stage": exactly([plan["stage"]], (row["stage"] for row in rows)),
        "same_inputs": some(differing(rows)),
        "numbers_agree": some(row["request_id"] for row in rows
                              if row["error"] is None and not agrees(row)),
        "missing": some(missing) if len(missing) / requests > allowed else "",
        "baseline_works": some(failed) if broken else "",
        "speculation": some(arm["name"] for arm in arms if misconfigured(arm, rows)),
    }  # fmt: skip


# --- intervals ------------------------------------------------------------------------------------

Ends = Optional[tuple[float, float]]
CAP, LOOKS, CHUNK = 0.75, 4096, 256  # of the bets


def beta_share(x: float, a: float, b: float) -> float:
    """Regularised incomplete beta function I_x(a, b), by its continued fraction (DLMF 8.17.22)."""
    if not 0 < x < 1:
        return min(max(x, 0.0), 1.0)
    if x > (a + 1) / (a + b + 2):  # where the fraction converges fast
        return 1 - beta_share(1 - x, b, a)
    front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    front = math.exp(front + a * math.log(x) + b * math.log1p(-x)) / a
    value, above, below, m, even = 1.0, 1.0, 0.0, 0, False
    while True:  # modified Lentz: value = 1 + d_1/(1 + d_2/(1 + ...))
        if even:
            m += 1
            d = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        else:
            d = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        below = 1 / (1 + d * below or 1e-300)
        above = 1 + d / above or 1e-300
        value, even = value * above * below, not even
        if abs(above * below - 1) < 1e-15:
            return front / value


def turning(holds: Callable[[float], bool], low: float, high: float) -> float:
    """Where a condition that holds from `low` on ceases to, before `high`."""
    for _ in range(200):
        middle = (low + high) / 2
        if not low < middle < high:
            break
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def student(level: float, freedom: int) -> float:
    """What |T| exceeds with chance 1 - level, T of Student's distribution."""

    def beyond(t: float) -> bool:
        return beta_share(freedom / (freedom + t * t), freedom / 2, 0.5) > 1 - level

    high = 1.0
    while beyond(high):
        high *= 2
    return turning(beyond, 0.0, high)


def jackknife(sums: list[list[float]], level: float) -> Ends:
    """Student's t by leaving out one prompt at a time, of the sums of each prompt.

    Two sums are a numerator and a denominator; four are those of a ratio above and one below, which
    are compared on the scale of logarithms.
    """
    k, logs = len(sums), len(sums[0]) == 4
    if k < 2:
        return None

    def scaled(parts: list[float]) -> float:
        ratio = parts[0] / parts[1] / (parts[2] / parts[3] if logs else 1)
        return math.log(ratio) if logs else ratio

    try:
        whole = [math.fsum(column) for column in zip(*sums)]
        center = scaled(whole)
        without = [scaled([w - p for w, p in zip(whole, parts)]) for parts in sums]
        mean = math.fsum(without) / k
        error = math.sqrt((k - 1) / k * math.fsum((w - mean) ** 2 for w in without))
        reach = student(level, k - 1) * error
        ends = center - reach, center + reach
        ends = (math.exp(ends[0]), math.exp(ends[1])) if logs else ends
        return ends if math.isfinite(sum(ends)) else None
    except (ArithmeticError, ValueError):  # a denominator hangs on one prompt; a ratio is not > 0
        return None


def drawn_order(n: int, seed: int) -> list[int]:
    """Places in the order of their SplitMix64 numbers."""
    full = 2**64 - 1

    def number(i: int) -> int:
        z = (seed + (i + 1) * 0x9E3779B97F4A7C15) & full
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & full
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB & full
        return z ^ (z >> 31)

    return sorted(range(n), key=number)


def betting(differences: list[float], level: float, seed: int) -> Ends:
    """Betting on the mean of differences in [-1, 1], one a prompt, in their sealed order."""
    n = len(differences)
    if n < 2:
        return None
    values = [min(max((differences[i] + 1) / 2, 0.0), 1.0) for i in drawn_order(n, seed)]
    needed, chunk = math.log(2 / (1 - level)), min(CHUNK, max(1, n // LOOKS))

    def lower(values: list[float]) -> float:
        bets, total, squares, variance = [], 0.0, 0.0, 0.25
        for i, value in enumerate(values, 1):
            bets.append(math.sqrt(2 * needed / (n * variance)))
            total += value
            squares += (value - (0.5 + total) / (i + 1)) ** 2
            variance = (0.25 + squares) / (i + 1)

        def reached(m: float) -> bool:
            wealth, factor = 0.0, 1.0
            for i, (bet, value) in enumerate(zip(bets, values), 1):
                factor *= 1 + min(bet, CAP / m if m > 0 else bet) * (value - m)
                if i % chunk == 0 or i == n:
                    wealth, factor = wealth + math.log(factor), 1.0
                    if wealth >= needed:
                        return True
            return False

        return turning(reached, 0.0, 1.0) if reached(0.0) else 0.0

    return 2 * lower(values) - 1, 1 - 2 * lower([1 - value for value in values])


def proportion(found: int, n: int, level: float) -> Ends:
    """Clopper-Pearson."""
    a = (1 - level) / 2
    low = turning(lambda p: beta_share(p, found, n - found + 1) < a, 0.0, 1.0) if found else 0.0
    if found == n:
        return low, 1.0
    return low, turning(lambda p: beta_share(p, found + 1, n - found) < 1 - a, 0.0, 1.0)


# --- the rules' numbers ---------------------------------------------------------------------------


class Estimate:
    """A number recomputed from the rows, or None without data.

    n: different prompts (for error rates requests) behind it. bare: those named when no interval
    could be stated. fragile: some denominator is 0, so that a resample may have had no value.
    ends: the interval at a level; None for tails, whose ends come from numpy's random numbers.
    """

    def __init__(
        self,
        value: float | None,
        names: Iterable[str] = (),
        bare: Iterable[str] = (),
        fragile: bool = False,
        ends: Callable[[float], Ends] | None = None,
    ) -> None:
        self.value, self.n, self.bare = value, len(set(names)), len(set(bare))
        self.fragile, self.ends = fragile, ends


Estimates = dict[Optional[str], Estimate]  # by stratum; None is all prompts


def over(above: float, below: float) -> float | None:
    """The ratio; None where it is none, or no number."""
    try:
        ratio = above / below
    except ArithmeticError:
        return None
    return ratio if math.isfinite(ratio) else None


def total(numbers: Iterable[float]) -> float:
    """Their exact sum, rounded once; infinity where it is beyond all numbers."""
    try:
        return math.fsum(numbers)
    except OverflowError:
        return math.inf


def pooled(found: Sequence[tuple[float, float]]) -> float:
    """Sum of numerators / sum of denominators."""
    return total(top for top, _ in found) / total(bottom for _, bottom in found)


def quantile(values: list[float], q: float) -> float:
    """Linear interpolation between order statistics."""
    values = sorted(values)
    low = math.floor(q * (len(values) - 1))
    high = min(low + 1, len(values) - 1)
    return values[low] + (values[high] - values[low]) * (q * (len(values) - 1) - low)


def paired(rows: list[Row], arm: str, base: str) -> Pairs:
    """(base, arm): requests that succeeded in both, matched by prompt and sampling setting."""
    sides: dict[str, dict[tuple[str, str], Row]] = {arm: {}, base: {}}
    for row in rows:
        if row["arm"] in sides and row["error"] is None:
            sides[row["arm"]][row["prompt_id"], setting(row)] = row
    return [
        (sides[base][key], row) for key, row in sorted(sides[arm].items()) if key in sides[base]
    ]


def by_prompt(names: Iterable[str], numbers: Iterable[Sequence[float]]) -> list[list[float]]:
    """Sums over the rows of each prompt, in the order of their names."""
    found: dict[str, list[Sequence[float]]] = {}
    for name, row in zip(names, numbers):
        found.setdefault(name, []).append(row)
    return [[total(column) for column in zip(*rows)] for _, rows in sorted(found.items())]


def compare(kind: str, metric: str, pairs: Pairs, seed: int, q: float = 0.5) -> Estimate:
    """Arm against base: ratio of pooled metrics, mean difference, or ratio of quantiles."""
    prompts = [base["prompt_id"] for base, _ in pairs]
    found = zip(prompts, (parts(metric, a) for _, a in pairs), (parts(metric, b) for b, _ in pairs))
    both = [(prompt, a, b) for prompt, a, b in found if a and b]
    if not both:
        return Estimate(None, bare=prompts)
    names, arms, bases = [n for n, _, _ in both], [a for _, a, _ in both], [b for _, _, b in both]
    ours, theirs = [top / bottom for top, bottom in arms], [top / bottom for top, bottom in bases]
    if kind == "difference":
        sums = by_prompt(names, ((a - b, 1.0) for a, b in zip(ours, theirs)))
        means = [total / count for total, count in sums]
        mean = math.fsum(means) / len(means)
        return Estimate(mean, names, prompts, ends=lambda level: betting(means, level, seed))
    if kind == "quantiles":
        above, below = quantile(ours, q), quantile(theirs, q)
        return Estimate(over(above, below), names, prompts, min(theirs) <= 0)
    above, below = pooled(arms), pooled(bases)
    sums = by_prompt(names, ((*a, *b) for a, b in zip(arms, bases)))
    return Estimate(over(above, below), names, prompts,
                    ends=lambda level: jackknife(sums, level))  # fmt: skip


SINGLE = {
    "acceptance_length": "mean_acceptance_length",
    "token_amplification": "target_tokens_per_output_token",
}
COMPARED = {
    "speed_ratio": ("ratio", "output_tokens_per_s"),
    "efficiency_gain": ("ratio", "mean_acceptance_length"),
    "quality_non_inferiority": ("difference", "quality"),
    "quality_difference": ("difference", "quality"),
}


def estimates(rule: Any, plan: Any, rows: list[Row]) -> Estimates:
    """The numbers of a rule."""
    kind, seed = rule["kind"], plan["bootstrap_seed"]
    rows = [row for row in rows if rule.get("sampling") in (None, setting(row))]
    own = [row for row in rows if row["arm"] == rule["arm"]]
    if kind == "losslessness":
        return {None: Estimate(None)}
    if kind == "error_rate":
        n, failed = len(own), sum(row["error"] is not None for row in own)
        return {None: Estimate(failed / n if n else None, (r["request_id"] for r in own),
                               ends=lambda level: proportion(failed, n, level))}  # fmt: skip
    if kind in SINGLE:
        found = [(row["prompt_id"], parts(SINGLE[kind], row)) for row in own]
        known = [(prompt, pair) for prompt, pair in found if pair]
        value = over(pooled([pair for _, pair in known]), 1.0) if known else None
        sums = by_prompt(*zip(*known)) if known else []
        return {None: Estimate(value, (prompt for prompt, _ in known),
                               ends=lambda level: jackknife(sums, level))}  # fmt: skip
    how, q = COMPARED.get(rule["measure"] if kind == "strata" else kind), 0.5
    if kind == "tail_latency":
        how, q = ("quantiles", rule["metric"]), rule["quantile"]
    if how is None:
        raise UncheckedError(f"this program does not know rules of kind {kind}")
    pairs = paired(rows, rule["arm"], rule.get("versus") or baseline_of(plan))
    if kind == "quality_non_inferiority":  # counts scored prompts where there is no interval
        pairs = [(b, a) for b, a in pairs if None not in (b["quality"], a["quality"])]
    strata = [(by, v) for by, values in rule.get("strata", {}).items() for v in values]

    def within(by: str, value: str) -> Pairs:
        return [(b, a) for b, a in pairs if (setting(b) if by == "sampling" else b[by]) == value]

    if kind != "strata":
        return {None: compare(*how, pairs, seed, q)}
    return {f"{by}={value}": compare(*how, within(by, value), seed) for by, value in strata}


def lossless(rule: Any, bundle: Bundle) -> str:
    """The outcome of a losslessness rule: the arm's word, if the control's can be believed."""
    audit, control, arm = bundle.json("audit.json"), baseline_of(bundle.plan), rule["arm"]
    arms = audit["arms"]
    if audit["alpha"] != rule["alpha"] or not {arm, control} <= set(arms):
        return "invalid"
    own, trusted = arms[arm]["verdict"], arms[control]["verdict"]
    if trusted == "biased":
        return "invalid"
    if arm in audit.get("planted_faults", {}):
        return "fail"
    if own != "lossless":
        return "fail" if own == "biased" else "undecided"
    sampled = any(setting(row) == "sampled" or not greedy(row)
                  for row in bundle.rows if row["arm"] == arm)  # fmt: skip
    read = arms[arm]["tokens_read"] and arms[control]["tokens_read"]
    return "undecided" if trusted == "undecided" or (sampled and not read) else "pass"


def outcome_of(rule: Any, entry: Any, threshold: float) -> str:
    """What interval and threshold lead to, by the kind and role of the rule."""
    if rule["kind"] == "error_rate":  # the observed rate decides, whatever n is
        if entry["n"] and entry["estimate"] > threshold:
            return "fail"
        return "pass" if entry["n"] >= rule["n_min"] else "insufficient"
    if entry["low"] is None or entry["n"] < rule["n_min"]:
        return "insufficient"
    good, bad = entry["low"] >= threshold, entry["high"] < threshold
    if rule["kind"] in ("tail_latency", "token_amplification"):
        good, bad = entry["high"] <= threshold, entry["low"] > threshold
    if bad:
        return "fail"
    return "pass" if good or rule["role"] == "guardrail" else "undecided"


def judge(rule: Any, bundle: Bundle, entries: list[Any]) -> None:
    """Compare the entries of one rule with what plan and rows give.

    The ends of a tail's interval are taken as they are: they come from numpy's random numbers.
    """
    kind, found = rule["kind"], estimates(rule, bundle.plan, bundle.rows)
    need(sorted(map(str, found)) == sorted(str(entry["stratum"]) for entry in entries),
         "the strata are not the plan's")  # fmt: skip
    level = 1 - (1 - rule["level"]) / len(found) if kind == "strata" else rule.get("level")
    threshold = next(rule[k] for k in ("threshold", "max_rate", "alpha", "margin") if k in rule)
    threshold = -threshold if "margin" in rule else threshold
    for entry in entries:
        own, where = found[entry["stratum"]], f" in {entry['stratum']}" if entry["stratum"] else ""
        need((entry["kind"], entry["role"], entry["arm"]) == (kind, rule["role"], rule["arm"]),
             f"kind, role or arm{where} is not the plan's")  # fmt: skip
        need(entry["threshold"] == threshold,
             f"threshold {entry['threshold']}{where}, the plan says {threshold}")  # fmt: skip
        value, n = own.value, own.n
        ends = own.ends(level) if own.ends and value is not None else None
        if entry["estimate"] is None:  # no interval could be stated
            none = ends is None if own.ends else value is None or n < 2 or own.fragile
            need(none, f"the estimate {value}{where} was left out")
            value, n = None, own.bare
        for name, wanted in zip(("estimate", "low", "high"), (value, *(ends or ()))):
            same = wanted == entry[name] or (
                None not in (wanted, entry[name])
                and math.isclose(wanted, entry[name], rel_tol=1e-8, abs_tol=1e-8)
            )
            need(same, f"{name} {entry[name]}{where}, the rows give {wanted}")
        need(kind == "losslessness" or entry["n"] == n, f"n {entry['n']}{where}, the rows have {n}")
        need(
            entry["level"] == (None if value is None else level), f"level{where} is not the plan's"
        )
        outcome = (
            outcome_of(rule, entry, threshold) if kind != "losslessness" else lossless(rule, bundle)
        )
        need(entry["outcome"] == outcome,
             f"'{entry['outcome']}'{where}, where the numbers say '{outcome}'")  # fmt: skip
        if value is not None and own.ends is None:
            slack = 1e-9 * max(1.0, abs(value))
            need(entry["low"] <= entry["high"] + slack, f"the interval{where} is upside down")
        reported = outcome == "insufficient" and rule.get("insufficient") == "report"
        need(entry["counts"] is not (rule["role"] == "secondary" or reported),
             f"whether it counts{where} is not as planned")  # fmt: skip


# --- stages that are looked at again and again ----------------------------------------------------

NEEDED = {
    "ttft_s": ("ttft_s",), "tpot_s": ("ttft_s", "e2e_s", "output_tokens"), "e2e_s": ("e2e_s",),
    "output_tokens_per_s": ("output_tokens", "e2e_s"), "output_tokens": ("output_tokens",),
    "mean_acceptance_length": ("steps", "accepted"), "acceptance_rate": ("drafted", "accepted"),
    "output_tokens_per_step": ("output_tokens", "steps"),
    "target_tokens_per_output_token": ("target_tokens", "output_tokens"),
    "draft_share": ("draft_s", "e2e_s"), "verify_share": ("verify_s", "e2e_s"),
    "other_share": ("other_s", "e2e_s"),
}  # fmt: skip
"""What a successful request must tell to have a metric."""


def candidate_of(plan: Any) -> str:
    """Name of the arm to be released; a live stage has one."""
    return next(str(arm["name"]) for arm in plan["arms"] if arm["role"] == "candidate")


def share_of(profile: Any) -> str | None:
    """The step of a canary that a row's profile names."""
    try:
        return f"{float(profile):g}"
    except (TypeError, ValueError):
        return None


def metrics_of(plan: Any, stage: Any) -> list[Any]:
    """The metrics of a stage, in its order."""
    named = {metric["name"]: metric for metric in plan["metrics"]}
    return [named[name] for name in stage["metrics"]]


def role_in(metric: Any, stage: Any) -> str:
    """A metric's role there: watch shows nothing more, it raises alarms."""
    alone = stage["name"] == "watch" and metric["role"] == "primary"
    return "guardrail" if alone else str(metric["role"])


def alarm_level(plan: Any, stage: Any) -> float:
    """What each alarm has of the stage's alarm_alpha."""
    guardrails = sum(role_in(metric, stage) == "guardrail" for metric in metrics_of(plan, stage))
    strata, steps = sum(map(len, plan["strata"].values())), len(stage["steps"] or [None])
    count = guardrails * steps * (1 + strata) + (stage["steps"] is not None)
    return float(stage["alarm_alpha"] / max(1, count))


def lacks(row: Row, plan: Any, metrics: Iterable[Any]) -> bool:
    """Whether a successful request lacks a number that a metric with a say needs of its arm.

    A reply that was over before anything was drafted has no steps to count.
    """
    alone = row["steps"] is None and row["output_tokens"] == 1
    undrafted = ("steps", "drafted", "accepted") if alone or row["steps"] == 0 else ()
    ours = row["arm"] == candidate_of(plan)
    needed = {
        field
        for metric in metrics
        if metric["role"] != "secondary" and (ours or metric["transform"] == "difference")
        for field in NEEDED.get(metric["name"], ())
        if field not in undrafted
    }
    return row["error"] is None and any(row[field] is None for field in needed)


def off_ratio(candidate: Sequence[bool], share: float, level: float) -> bool:
    """Whether the sequential test of the candidate's share raised an alarm at some unit."""
    prior, seen, log_e = (200 * (1 - share), 200 * share), [0, 0], 0.0
    weights = (1 - share, share)
    for assigned in candidate:  # B(a + n) / B(a) / prod theta^n, one unit more at a time
        arm = int(assigned)
        log_e += math.log((prior[arm] + seen[arm]) / (200 + sum(seen)) / weights[arm])
        seen[arm] += 1
        if log_e >= math.log(1 / level):
            return True
    return False


def ratios(plan: Any, stage: Any, rows: list[Row]) -> str:
    """Steps of a canary whose arms did not get, or report, their shares."""
    level = alarm_level(plan, stage) / (2 * len(stage["steps"]))
    arms, found = (baseline_of(plan), candidate_of(plan)), []
    rows = sorted(rows, key=lambda row: (when(row["started_at"]), row["request_id"]))
    for step in stage["steps"]:
        own = [r for r in rows if share_of(r["profile"]) == f"{step:g}" and r["arm"] in arms]
        usable = [row for row in own if not lacks(row, plan, metrics_of(plan, stage))]
        for counted in (own, usable):
            units: dict[str, bool] = {}
            for row in counted:
                name = row["prompt_id"]
                if stage["unit"] == "conversation":
                    name = name.rpartition("/")[0] or name
                name = row["request_id"] if stage["unit"] == "request" else name
                units.setdefault(name, row["arm"] == arms[1])
            if off_ratio(list(units.values()), step, level):
                found.append(f"step {step:g}")
    return some(found)


def live_gaps(plan: Any, stage: Any, rows: list[Row]) -> tuple[int, int]:
    """Requests that lack something, of how many; of the worse arm where they are not paired."""
    arms, metrics = (baseline_of(plan), candidate_of(plan)), metrics_of(plan, stage)
    if stage["name"] != "shadow":
        found = [[lacks(row, plan, metrics) for row in rows if row["arm"] == arm] for arm in arms]
        return max(
            ((sum(own), len(own)) for own in found if own), key=lambda each: each[0] / each[1]
        )
    pairs: dict[tuple[str, str], dict[str, Row]] = {}
    for row in rows:
        if row["arm"] in arms:
            pairs.setdefault((row["prompt_id"], setting(row)), {})[row["arm"]] = row
    wrong = 0
    for pair in pairs.values():
        scores = {row["quality"] is None for row in pair.values() if row["error"] is None}
        gap = (
            len(pair) < 2 or len(scores) > 1 or any(lacks(r, plan, metrics) for r in pair.values())
        )
        wrong += gap
    return wrong, len(pairs)


def live_integrity(bundle: Bundle) -> tuple[dict[str, str], set[str]]:
    """As `integrity`, for a live stage; and the checks that hold the decision as yet."""
    plan, stage, rows = bundle.plan, bundle.live, bundle.rows
    own = {name: text for name, text in integrity(bundle).items() if name not in
           ("arms", "sampling", "same_inputs", "missing", "baseline_works")}  # fmt: skip
    arms = Counter(row["arm"] for row in rows)
    found, pair = set(arms), {baseline_of(plan), candidate_of(plan)}
    wanted = {candidate_of(plan)} if stage["name"] == "watch" else pair
    known = wanted if stage["name"] == "canary" else {arm["name"] for arm in plan["arms"]}
    misnamed = (row["request_id"] for row in rows if setting(row) in ("greedy", "sampled")
                and greedy(row) != (setting(row) == "greedy"))  # fmt: skip
    steps = [f"{step:g}" for step in stage["steps"] or []]
    untimed = some(row["request_id"] for row in rows if row["started_at"] is None)
    own |= {
        "arms": some((wanted - found) | (found - known)),
        "sampling": some({setting(row) for row in rows} - set(plan["sampling"])) or some(misnamed),
        "same_inputs": some(differing(rows)) if stage["name"] == "shadow" else "",
        "in_time": untimed,
        "steps": some({str(r["profile"]) for r in rows if share_of(r["profile"]) not in steps}
                      if steps else ()),
        "sample_ratio": ratios(plan, stage, rows) if steps and not untimed else "",
    }  # fmt: skip
    base = [row for row in rows if row["arm"] == baseline_of(plan)] * (stage["name"] != "watch")
    shares = {
        "missing": live_gaps(plan, stage, rows),
        "baseline_works": (sum(row["error"] is not None for row in base), max(1, len(base))),
    }
    early = stage["name"] == "canary" or max(arms.values()) < stage["n_min"]
    holding = {"arms"} if own["arms"] and found <= known and early else set()
    for name, (wrong, total) in shares.items():
        too_many = wrong / total > plan["missing_data"]["max_missing_share"]
        own[name] = f"{wrong} of {total} requests" if too_many else ""
        if too_many and total < stage["n_min"]:
            holding.add(name)
    return own, holding


def places(plan: Any, stage: Any, rows: list[Row], role: str) -> list[str | None]:
    """Where a metric is judged: in each step that has rows, and a guardrail in each stratum."""
    present = {share_of(row["profile"]) for row in rows}
    steps = [f"step={step:g}" for step in stage["steps"] or [] if f"{step:g}" in present]
    strata = [f"{by}={v}" for by, values in plan["strata"].items() for v in values]
    inside = ["", *strata] if role == "guardrail" else [""]
    return [", ".join(filter(None, (step, where))) or None for step in steps or [""]
            for where in inside]  # fmt: skip


HIGHER = ("output_tokens_per_s", "mean_acceptance_length", "output_tokens_per_step", "quality")
"""Metrics whose limit is kept from above."""
SILENCE = timedelta(minutes=30)
"""After which a conversation has ended."""
Timed = list[tuple[datetime, str, Optional[float]]]  # start, prompt, value; in order


def value_of(metric: Any, row: Row) -> float | None:
    """A metric's value of one request of a live stage."""
    failed = row["error"] is not None
    if metric["name"] == "error_rate":
        return float(failed)
    pair = parts(metric["name"], row)
    value = None if pair is None else pair[0] / pair[1]
    if metric["transform"] != "indicator":
        return value
    if failed or value is None:
        return 0.0 if failed else None
    limit = metric["limit"]
    return float(value >= limit if metric["name"] in HIGHER else value <= limit)


def unit_places(unit: str, timed: Timed, now: datetime) -> list[list[int]]:
    """Rows of each unit, as places in `timed`; units in the order of their last rows."""
    if unit == "request":
        return [[place] for place in range(len(timed))]
    groups: dict[str, list[int]] = {}
    ended: list[list[int]] = []
    for place, (start, prompt, _) in enumerate(timed):
        name = prompt if unit == "prompt" else prompt.rpartition("/")[0] or prompt
        own = groups.setdefault(name, [])
        last = timed[own[-1]][0] if own else start
        if unit == "conversation" and start - last > SILENCE:
            ended.append(own)
            own = groups[name] = []
        if unit == "conversation" or start == last:  # later repeats of a prompt do not count
            own.append(place)
    if unit == "prompt":
        return list(groups.values())
    ended += [own for own in groups.values() if timed[own[-1]][0] + SILENCE < now]
    return sorted(ended, key=lambda own: own[-1])


def unit_means(unit: str, timed: Timed, now: datetime) -> list[float]:
    """The mean of each unit that has a value."""
    found = []
    for places in unit_places(unit, timed, now):
        known = [value for value in (timed[place][2] for place in places) if value is not None]
        found += [math.fsum(known) / len(known)] if known else []
    return found


def counted(plan: Any, stage: Any, rows: list[Row], step: str | None) -> dict[str, list[Row]]:
    """Rows of candidate and baseline that count: in the window, and up to n_max units."""
    base, arm = baseline_of(plan), candidate_of(plan)
    end = datetime.max
    if stage["window"]:
        end = when(rows[0]["started_at"]) + timedelta(
            **{stage["window"]["per"]: stage["window"]["length"]}
        )
    own = [row for row in rows if when(row["started_at"]) <= end
           and step in (None, share_of(row["profile"]))]  # fmt: skip
    found = {name: [row for row in own if row["arm"] == name] for name in (arm, base)}
    timed: dict[str, Timed] = {
        name: [(when(row["started_at"]), row["prompt_id"], None) for row in each]
        for name, each in found.items()
    }
    units = {
        name: unit_places(stage["unit"], each, when(rows[-1]["started_at"]))
        for name, each in timed.items()
    }
    if stage["n_max"] is None or len(units[arm]) < stage["n_max"]:
        return found
    del units[arm][stage["n_max"] :]
    last = timed[arm][units[arm][-1][-1]][0]
    units[base] = [own for own in units[base] if timed[base][own[-1]][0] <= last]
    cut = (arm,) if stage["name"] == "shadow" else (arm, base)
    kept = {name: sorted(place for own in units[name] for place in own) for name in cut}
    return found | {name: [found[name][place] for place in own] for name, own in kept.items()}


def live_estimate(
    metric: Any,
    plan: Any,
    stage: Any,
    found: dict[str, list[Row]],
    *,
    named: Mapping[str, str],
    now: datetime,
) -> tuple[int, float | None]:
    """Units behind a number of a live stage, and the number.

    Args:
        metric: which.
        plan: the stage's view.
        stage: it.
        found: rows that count, by arm.
        named: a stratum and its value, or nothing.
        now: start of the newest row of all.
    """
    base, arm = baseline_of(plan), candidate_of(plan)
    for by, value in named.items():
        found = {name: [row for row in own if (setting(row) if by == "sampling" else row[by])
                        == value] for name, own in found.items()}  # fmt: skip
    timed: dict[str, Timed] = {
        name: [(when(row["started_at"]), row["prompt_id"], value_of(metric, row)) for row in own]
        for name, own in found.items()
    }
    if metric["transform"] == "difference" and stage["name"] == "shadow":
        other = {(row["prompt_id"], setting(row)): each
                 for row, each in zip(found[base], timed[base])}  # fmt: skip
        pairs = [(each, other.get((row["prompt_id"], setting(row))))
                 for row, each in zip(found[arm], timed[arm])]  # fmt: skip
        both: Timed = [(max(a[0], b[0]), a[1], plus(a[2], b[2], -1)) for a, b in pairs if b]
        timed[arm] = sorted(both, key=lambda each: each[0])
    ours = unit_means(stage["unit"], timed[arm], now)
    if metric["transform"] == "difference" and stage["name"] != "shadow":
        theirs = unit_means(stage["unit"], timed[base], now)
        if not ours or not theirs:
            return 0, None
        return min(len(ours), len(theirs)), mean(ours) - mean(theirs)
    return len(ours), mean(ours) if ours else None


def mean(values: Sequence[float]) -> float:
    """Of at least one number."""
    return math.fsum(values) / len(values)


def judge_live(metric: Any, bundle: Bundle, entries: list[Any]) -> None:
    """Compare the entries of one metric with what plan, rows and sequence give.

    The sequence's ends and the moment of a decision are taken as they are; what follows from them
    is not, and neither is the number itself.
    """
    plan, stage = bundle.plan, bundle.live
    role = role_in(metric, stage)
    if role == "secondary" and metric["margin"] is None:
        need([e["outcome"] for e in entries] == ["not_evaluated"], "it has no margin to judge by")
        return
    need([entry["stratum"] for entry in entries] == places(plan, stage, bundle.rows, role),
         "the steps and strata are not the plan's")  # fmt: skip
    higher, difference = metric["direction"] == "higher", metric["transform"] == "difference"
    threshold = -metric["margin"] if difference and higher else metric["margin"]
    alpha = alarm_level(plan, stage) if role == "guardrail" else stage["alpha"]
    rows = sorted(bundle.rows, key=lambda row: (when(row["started_at"]), row["request_id"]))
    now = when(rows[-1]["started_at"])
    scopes: dict[str | None, dict[str, list[Row]]] = {}
    for entry in entries:
        where = f" in {entry['stratum']}" if entry["stratum"] else ""
        need((entry["role"], entry["arm"]) == (role, candidate_of(plan)),
             f"role or arm{where} is not the plan's")  # fmt: skip
        need(entry["threshold"] == threshold,
             f"threshold {entry['threshold']}{where}, the plan says {threshold}")  # fmt: skip
        if entry["outcome"] == "invalid":
            continue  # a value outside the bounds, which makes the whole verdict INVALID
        named = dict(part.split("=", 1) for part in (entry["stratum"] or "").split(", ") if part)
        step = named.pop("step", None)
        if step not in scopes:
            scopes[step] = counted(plan, stage, rows, step)
        own, value = live_estimate(metric, plan, stage, scopes[step], named=named, now=now)
        need(entry["n"] == own, f"n {entry['n']}{where}, the rows have {own}")
        near = value == entry["estimate"] or (
            None not in (value, entry["estimate"])
            and math.isclose(value, entry["estimate"], rel_tol=1e-9, abs_tol=1e-9)  # type: ignore[arg-type]
        )
        need(near, f"estimate {entry['estimate']}{where}, the rows give {value}")
        low, high, n, at = entry["low"], entry["high"], entry["n"], entry["decided_at"]
        outcome = live_outcome(role, entry, stage["n_min"], higher)
        need(entry["outcome"] == outcome,
             f"'{entry['outcome']}'{where}, where the numbers say '{outcome}'")  # fmt: skip
        final = outcome == "fail" or (outcome == "pass" and role != "guardrail")
        need((at is not None) == final, f"decided_at {at}{where}, where the outcome is {outcome}")
        need(at is None or 1 <= at <= n, f"decided after {at} of {n} units{where}")
        need(
            at is None or outcome == "fail" or at >= stage["n_min"], f"decided before n_min{where}"
        )
        told, level = entry["level"], 1 - 2 * alpha
        same = told is None if low is None else told is not None and math.isclose(told, level)
        need(same, f"level {told}{where}, the plan gives {level}")
        need(low is None or low <= high, f"the sequence{where} is upside down")
        part = (entry["stratum"] or "").rpartition(", ")[2]
        reported = outcome == "insufficient" and bool(part) and not part.startswith("step=")
        need(entry["counts"] is not (role == "secondary" or reported),
             f"whether it counts{where} is not as planned")  # fmt: skip


def live_outcome(role: str, entry: Any, n_min: int, higher: bool) -> str:
    """What a sequence (or an alarm) and its threshold lead to, by role."""
    low, high, asked = entry["low"], entry["high"], entry["threshold"]
    good, bad = False, entry["decided_at"] is not None  # an e-detector has alarms and no ends
    if entry["kind"] != "e-detector":
        need((low is None) == (entry["n"] == 0), "a sequence without units, or units without one")
        good, bad = False, False
        if low is not None:
            good, bad = (low >= asked, high < asked) if higher else (high <= asked, low > asked)
    if bad:
        return "fail"
    if entry["n"] < n_min:
        return "insufficient"
    if low is not None and low == high:  # no common mean fits: it has become worse
        return "undecided"
    return "pass" if good or role == "guardrail" else "undecided"


# --- Ed25519 (RFC 8032, section 5.1) --------------------------------------------------------------

P = 2**255 - 19
L = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, P) % P
Point = tuple[int, int, int, int]  # extended coordinates X, Y, Z, T = XY/Z


def add(p: Point, q: Point) -> Point:
    """Sum of two points, also of equal ones."""
    a, b = (p[1] - p[0]) * (q[1] - q[0]) % P, (p[1] + p[0]) * (q[1] + q[0]) % P
    c, d = 2 * p[3] * q[3] * D % P, 2 * p[2] * q[2] % P
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % P, g * h % P, f * g % P, e * h % P


def times(scalar: int, p: Point) -> Point:
    """The sum of that many p."""
    total: Point = (0, 1, 1, 0)
    while scalar:
        if scalar & 1:
            total = add(total, p)
        p, scalar = add(p, p), scalar >> 1
    return total


def decompress(data: bytes) -> Point | None:
    """The point of 32 bytes, or None where there is none or it has another spelling."""
    y = int.from_bytes(data, "little")
    sign, y = y >> 255, y & (1 << 255) - 1
    if y >= P or len(data) != 32:
        return None
    square = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    x = pow(square, (P + 3) // 8, P)
    if (x * x - square) % P:
        x = x * pow(2, (P - 1) // 4, P) % P
    if (x * x - square) % P or (x == 0 and sign):
        return None
    x = P - x if x & 1 != sign else x
    return x, y, 1, x * y % P


BASE = decompress((4 * pow(5, -1, P) % P).to_bytes(32, "little"))


def signed_by(public_key: bytes, signature: bytes, message: bytes) -> bool:
    """Whether the signature over the message is that of the key: [S]B = R + [k]A."""
    key, s = decompress(public_key), int.from_bytes(signature[32:], "little")
    nonce = decompress(signature[:32])
    if key is None or nonce is None or len(signature) != 64 or s >= L or BASE is None:
        return False
    digest = hashlib.sha512(signature[:32] + public_key + message).digest()
    k = int.from_bytes(digest, "little") % L
    left, right = times(s, BASE), add(nonce, times(k, key))
    return not ((left[0] * right[2] - right[0] * left[2]) % P
                or (left[1] * right[2] - right[1] * left[2]) % P)  # fmt: skip


# --- seal, ledger, approvals, anchors -------------------------------------------------------------


STEP = timedelta(minutes=1)
"""By which a clock may have been set back between a signature and its line."""


@lru_cache(maxsize=1 << 20)
def when(text: str) -> datetime:
    """A time in UTC."""
    need(text.endswith("Z"), f"{text} is not a time in UTC")
    return datetime.fromisoformat(text[:-1])


def mentions(value: Any, digest: str) -> bool:
    """Whether a document holds the digest as a value, however deep."""
    if isinstance(value, dict):
        return any(mentions(item, digest) for item in value.values())
    if isinstance(value, list):
        return any(mentions(item, digest) for item in value)
    return bool(value == digest)


def unbase64(text: str) -> bytes:
    """The bytes of base64 text, which has one spelling only."""
    data = base64.b64decode(text, validate=True)
    need(base64.b64encode(data).decode("ascii") == text, "base64 in another spelling")
    return data


WORD = r"""[^\s"'#&*!|>%@`{}\[\],?:-][^#:]*"""
TIME = r"\d{4}-\d\d-\d\dT[\d:.]+Z"
FIELD = re.compile(rf"""(- |  )(\w+): +("[^"\\]*"|'[^']*'|null|{TIME}|{WORD})""")


def signers_in(text: str) -> list[dict[str, Any]]:
    """The signers file: YAML, of which this reads the plain form, one `field: value` a line."""
    found: list[dict[str, Any]] = []
    for line in text.splitlines():
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        match = FIELD.fullmatch(line.rstrip())
        if match is None or (match[1] != "- " and not found):
            raise UncheckedError(f"signers.yaml has a line this program cannot read: {line}")
        if match[1] == "- ":
            found.append({"valid_from": None, "valid_until": None})
        quoted = match[3][0] in "\"'"
        found[-1][match[2]] = match[3][1:-1] if quoted else None if match[3] == "null" else match[3]
    return found


def valid(signer: Any, at: datetime) -> bool:
    """Whether the signer's key may sign at that time."""
    first, last = signer["valid_from"], signer["valid_until"]
    return (first is None or when(first) <= at) and (last is None or at < when(last))


class Statement:
    """What a DSSE envelope says, once every signature on it was found good.

    subjects: SHA-256 by name. predicate: the rest of it. signers: whose signatures they are. at:
    when it was signed.
    """

    def __init__(self, bundle: Bundle, name: str, kind: str, envelope: Any) -> None:
        body = unbase64(envelope["payload"])
        media, signatures = envelope["payloadType"], envelope["signatures"]
        listed = signers_in(bundle.raw("signers.yaml").decode("utf-8"))
        known = {sha256(unbase64(signer["public_key"]))[:16]: signer for signer in listed}
        pae = b"DSSEv1 %d %b %d %b" % (len(media), media.encode("utf-8"), len(body), body)
        ids = [signature["keyid"] for signature in signatures]
        need(ids and len(set(ids)) == len(ids), f"{name} is not signed, or twice by one key")
        for identifier, signature in zip(ids, signatures):
            need(identifier in known, f"{name} is signed by key {identifier}, which nobody has")
            key = known[identifier]["public_key"]
            need(not bundle.trusted or key in bundle.trusted,
                 f"{name} is signed by key {identifier}, which you do not trust")  # fmt: skip
            need(signed_by(unbase64(key), unbase64(signature["sig"]), pae),
                 f"{name}: a signature is not over this payload")  # fmt: skip
        document = parse(body, name)
        shape = (media, document["_type"], document["predicateType"])
        need(shape == ("application/vnd.in-toto+json", STATEMENT, PREDICATE.format(kind)),
             f"{name} is no {kind}")  # fmt: skip
        self.predicate: Any = document["predicate"]
        self.subjects = {s["name"]: s["digest"]["sha256"] for s in document["subject"]}
        self.signers = [known[identifier] for identifier in ids]
        self.at = self.predicate["when" if kind == "deviation" else "at"]
        for signer in self.signers:
            need(valid(signer, when(self.at)),
                 f"{name}: the key of {signer['name']} was not valid on {self.at}")  # fmt: skip

    @property
    def names(self) -> str:
        """Who signed."""
        return " and ".join(signer["name"] for signer in self.signers)


def opened(bundle: Bundle, name: str, kind: str, envelope: Any = None) -> Statement:
    """The statement in a file, or in an envelope that stands at `name`."""
    try:
        return Statement(bundle, name, kind, envelope or bundle.json(name))
    except (KeyError, TypeError, ValueError) as error:
        raise TamperedError(f"{name} is no signed {kind}: {error!r}") from error


def check_signature(bundle: Bundle) -> str:
    """Somebody signed the bundle as a whole, if anybody did."""
    if "signature.json" not in bundle.files:
        return "none: what no other hash or number below names can be changed unseen"
    signed = opened(bundle, "signature.json", "verdict")
    for name in ("MANIFEST.json", "verdict"):
        file = name if name in bundle.files else f"{name}.json"
        need(signed.subjects.get(name) == sha256(bundle.raw(file)), f"another {file} was signed")
    return f"all files are signed by {signed.names} on {signed.at}"


def check_seal(bundle: Bundle) -> str:
    """Somebody signed this plan, and with it whose signatures count and the environment."""
    if "seal.json" not in bundle.files:
        raise UncheckedError("nobody sealed the plan: nothing shows that it came before the rows")
    seal, own = opened(bundle, "seal.json", "plan-seal"), sha256(bundle.raw("plan.json"))
    need(seal.subjects.get("plan") == own, f"the seal is of another plan than {own[:12]}")
    need(sha256(bundle.raw("signers.yaml")) in seal.subjects.values(),
         "signers.yaml is not the one that was sealed")  # fmt: skip
    lock = bundle.json("manifest.json")["entries"].get("lock")
    need(seal.subjects.get("requirements.lock", lock) == lock,
         "the rows were measured with another requirements.lock than was sealed")  # fmt: skip
    whose = "you trust" if bundle.trusted else "comes with the bundle (--signer demands yours)"
    return f"plan {own[:12]} was signed by {seal.names} on {seal.at} with a key that {whose}"


def ledger(bundle: Bundle) -> list[Any]:
    """The entries, each with its own hash as `head`."""
    entries: list[Any] = []
    previous, before = "0" * 64, ""
    for number, line in enumerate(bundle.lines("ledger.jsonl")):
        entry, where = parse(line, "ledger.jsonl"), f"ledger.jsonl, line {number + 1}"
        need(entry["sequence"] == number, f"{where}: entry {entry['sequence']} stands here")
        need(entry["previous"] == previous, f"{where}: it, or the line above, was changed")
        need(not before or when(entry["at"]) >= when(before), f"{where}: back-dated")
        previous, before = sha256(line), entry["at"]
        entries.append({**entry, "head": previous})
    return entries


def amendments(bundle: Bundle, ours: Sequence[Any]) -> int:
    """How many deviations from this plan are on record; its author signed each."""
    foreseen = {entry["name"] for entry in bundle.json("plan.json")["contingencies"]}
    count, is_open = 0, False
    for entry in ours:
        is_open = is_open or entry["kind"] == "opened"
        if entry["kind"] != "amendment":
            continue
        where, body = f"ledger.jsonl, line {entry['sequence'] + 1}", entry["body"]
        need(body.get("envelope"), f"{where}: nobody signed this amendment")
        given = opened(bundle, where, "deviation", body["envelope"])
        said, text = given.predicate, json.dumps(
            body["envelope"], sort_keys=True, separators=(",", ":"), ensure_ascii=False
        )  # fmt: skip
        need((body["plan_sha256"], body["deviation_sha256"], entry["at"])
             == (said["plan_sha256"], sha256(text.encode("utf-8")), said["when"]),
             f"{where}: an amendment of another deviation than was signed")  # fmt: skip
        need(said["author"] in [signer["name"] for signer in given.signers],
             f"{where}: an amendment by {said['author']}, who did not sign it")  # fmt: skip
        count += 1
        suits = is_open or said["data_seen"] in ("partial", "full")
        unforeseen = suits and said["contingency"] not in foreseen
        if unforeseen and bundle.json("verdict.json")["status"] == "GO":
            raise UncheckedError(
                f"{where}: amended once there were data to suit, so that the result is "
                f"exploratory and no GO: {said['what']}"
            )
    return count


def check_ledger(bundle: Bundle) -> str:
    """The chain holds, and seal, rows and verdict came in this order."""
    entries, record = ledger(bundle), bundle.json("record.json")
    head, known = entries[-1]["head"], bundle.trusted_head
    need(record["ledger_head"] == head, "the ledger does not end where the bundle says: truncated?")
    need(when(record["at"]) >= when(entries[-1]["at"]), "the bundle is older than its ledger")
    need(known is None or known in [entry["head"] for entry in entries],
         f"no entry has the hash {known} that you know: truncated, or written anew")  # fmt: skip
    plan, verdict = sha256(bundle.raw("plan.json")), sha256(bundle.raw("verdict.json"))
    ours = [entry for entry in entries if mentions(entry["body"], plan)]
    seals = [entry for entry in ours if entry["kind"] == "seal"]
    seal = sha256(bundle.raw("seal.json")[:-1])  # without its line break, as the ledger has it
    need(seals and seals[-1]["body"]["seal_sha256"] == seal, "the ledger has another seal, or none")
    sealed, statement = seals[-1]["at"], opened(bundle, "seal.json", "plan-seal")
    # Nobody signs the ledger: whoever writes it anew can date its lines.
    need(sealed == statement.at,
         f"the ledger has the seal on {sealed}, it was signed on {statement.at}")  # fmt: skip
    about = (plan, statement.subjects.get("confirmation", plan))
    openings = [entry["sequence"] for entry in entries if entry["kind"] == "opened"
                and any(mentions(entry["body"], digest) for digest in about)]  # fmt: skip
    need(all(number > seals[-1]["sequence"] for number in openings),
         "the prompts were opened before the seal")  # fmt: skip
    verdicts = [entry for entry in ours if entry["kind"] == "verdict"]
    need(not verdicts or any(mentions(entry["body"], verdict) for entry in verdicts),
         "the ledger records another verdict on this plan")  # fmt: skip
    started = sorted(when(row["started_at"]) for row in bundle.rows if row["started_at"])
    untimed = some(r["request_id"] for r in bundle.rows if not (r["started_at"] or r["error"]))
    if untimed:
        raise UncheckedError(f"nothing shows that the plan was sealed before {untimed} began")
    if started and started[0] < when(sealed):
        raise UncheckedError(f"sealed on {sealed}, after the first row ({started[0]})")
    judged = [entry["at"] for entry in verdicts if mentions(entry["body"], verdict)]
    if started and judged and when(judged[-1]) < started[-1]:
        raise UncheckedError(f"a row began on {started[-1]}, after its verdict ({judged[-1]})")
    changes = amendments(bundle, ours)
    noted = f"; {changes} amendments, read them" if changes else ""
    return f"{len(entries)} entries up to {head[:12]}; the plan was sealed on {sealed}{noted}"


def approval(bundle: Bundle, name: str) -> Statement:
    """A decision on this verdict that counts at the time on record."""
    given, at = opened(bundle, name, "approval"), when(bundle.json("record.json")["at"])
    own, who = sha256(bundle.raw("verdict.json")), f"{name} by {given.names}"
    need(given.subjects.get("verdict") == own, f"{who} is of another verdict than {own[:12]}")
    if len(given.signers) != 1:
        raise UncheckedError(f"{who} has {len(given.signers)} signatures, an approval has one")
    if not when(given.at) <= at < when(given.predicate["expires"]):
        raise UncheckedError(f"{who} had expired or was signed later: {given.predicate}")
    if given.signers[0]["role"] != given.predicate["role"]:
        raise UncheckedError(f"{who} is as {given.predicate['role']}, which they are not")
    if given.predicate["decision"] == "reject":
        raise UncheckedError(f"{who} rejects the verdict: {given.predicate['reason']}")
    return given


def check_approvals(bundle: Bundle) -> str:
    """Who approved this verdict, by the roles and the number of people the plan asks for."""
    plan, verdict = bundle.json("plan.json")["approvals"], sha256(bundle.raw("verdict.json"))
    names = sorted(name for name in bundle.files if name.startswith("approvals/"))
    given = [approval(bundle, name) for name in names]
    recorded = {entry["body"]["approval_sha256"]: entry["at"] for entry in ledger(bundle)
                if entry["kind"] in ("approval", "override")
                and entry["body"]["verdict_sha256"] == verdict}  # fmt: skip
    ours = [sha256(bundle.raw(name)[:-1]) for name in names]
    differing = f"the ledger has {len(recorded)} decisions on this verdict, the bundle {len(names)}"
    need(set(recorded) == set(ours), differing)
    started = [when(row["started_at"]) for row in bundle.rows if row["started_at"]]
    for name, digest, decision in zip(names, ours, given):
        signed, line = when(decision.at), when(recorded[digest])
        if not max(started, default=signed) - STEP <= signed <= line + STEP:
            raise UncheckedError(f"{name} was signed on {signed}, on record since {line}: it was "
                                 "not signed between the last row and its line")  # fmt: skip
        if not all(valid(signer, line) for signer in decision.signers):
            raise UncheckedError(f"{name}: the key was not valid on {line}, when it was recorded")
    counted: list[tuple[str, str]] = []  # (person, role)
    sealers = opened(bundle, "seal.json", "plan-seal").signers if given else []
    for decision in given:
        person, role = decision.signers[0]["name"], decision.predicate["role"]
        taken = [who for who, what in counted if plan["distinct_persons"] or what == role]
        if plan["distinct_persons"] and person in [signer["name"] for signer in sealers]:
            continue  # who proposed the change cannot approve it
        if decision.predicate["decision"] == "approve" and person not in taken:
            counted.append((person, role))
    missing = Counter(plan["required_roles"]) - Counter(role for _, role in counted)
    if missing and bundle.json("verdict.json")["status"] == "GO":
        raise UncheckedError(f"an approval as {some(missing)} by another person is missing")
    over = sum(decision.predicate["decision"] == "override" for decision in given)
    if over and bundle.json("verdict.json")["status"] == "GO":
        raise UncheckedError("the verdict was OVERRIDDEN, and is no GO from then on")
    noted = f"; OVERRIDDEN {over} times, which makes it no GO" if over else ""
    return f"{len(counted)} count, {len(plan['required_roles'])} asked for{noted}"


def check_anchors(bundle: Bundle) -> str:
    """Who else knows the ledger's head, as far as that can be told from here."""
    anchors = bundle.json("record.json")["anchors"]
    if not anchors:
        raise UncheckedError("record.json does not name an anchor, not even 'none'")
    for anchor in anchors:
        name, head, proof = anchor["name"], anchor["head"], anchor["proof"]
        need(name in ("none", "git-tag", "rfc3161"), f"unknown anchor {name}")
        need(head is None or head in [entry["head"] for entry in ledger(bundle)],
             f"anchor {name}: no entry of the ledger has the hash {head}")  # fmt: skip
        need(proof is None or name != "none", "anchor 'none' has a proof")
        if name == "git-tag":
            tag = unbase64(proof["content"])
            need(f"ledger head {head}\n".encode() in tag, "the git tag is of another head")
            number = hashlib.sha1(b"tag %d\0" % len(tag) + tag, usedforsecurity=False).hexdigest()
            need(number == proof["object"], "the git tag is not the object it says")
        if name == "rfc3161" and proof is not None:
            need(bytes.fromhex(head) in unbase64(proof["token"]), "the token is of another head")
    names = some({anchor["name"] for anchor in anchors})
    if names == "none":
        return "none: only a head that you know from elsewhere (--head) dates the ledger"
    return f"{names}; whether the tag or token is genuine is for `git tag -v` or `openssl ts`"


# --- the verdict ----------------------------------------------------------------------------------


def check_counts(bundle: Bundle) -> str:
    """Rows, prompts, and what the verdict repeats of the plan."""
    plan, verdict, rows = bundle.plan, bundle.json("verdict.json"), bundle.rows
    prompts, made = len({row["prompt_id"] for row in rows}), when(bundle.json("record.json")["at"])
    need(verdict["rows"] == len(rows), f"{verdict['rows']} rows in the verdict, {len(rows)} here")
    late = some(row["request_id"] for row in rows
                if row["started_at"] and when(row["started_at"]) > made)  # fmt: skip
    need(not late, f"rows began after the bundle was made: {late}")
    need(verdict["prompts"] == prompts, f"{verdict['prompts']} prompts, the rows have {prompts}")
    repeated = {name: plan[name] for name in ("claim", "owner", "overturned_by", "reopen_when")}
    for name, value in {**repeated, "plan_name": plan["name"]}.items():
        need(verdict[name] == value, f"{name} in the verdict is not the plan's")
    return f"{len(rows)} rows of {prompts} prompts, stage {plan['stage']}"


def check_integrity(bundle: Bundle) -> str:
    """Are the rows the planned evidence? As the verdict says."""
    plan, live = bundle.plan, bundle.live
    own, holding = live_integrity(bundle) if live else (integrity(bundle), set())
    entries = bundle.json("verdict.json")["rules"]
    found = {e["name"]: e["outcome"] for e in entries if e["role"] == "integrity"}
    for name, problem in own.items():
        need(f"integrity/{name}" in found, f"the verdict leaves out the check {name}")
        # A verdict that is stricter than this program is INVALID, and so is what it says of it.
        allowed = ("invalid",) if problem else ("pass", "invalid")
        allowed = ("insufficient", "invalid") if name in holding else allowed
        need(found[f"integrity/{name}"] in allowed, f"{name} is not in order: {problem}")
    if live:  # which no number of prompts makes complete
        return f"{len(own)} checks of the rows of {live['name']} give what the verdict says"
    profiles = {row["profile"] or "none" for row in bundle.rows}
    expected = plan["prompts_expected"].get(min(profiles)) if len(profiles) == 1 else None
    prompts = len({row["prompt_id"] for row in bundle.rows})
    most = next(stage["n_max"] for stage in plan["stages"] if stage["name"] == plan["stage"])
    told = "pass" if expected and prompts >= expected else "insufficient"
    told = "invalid" if most is not None and prompts > most else told
    need(found.get("integrity/complete") == told,
         f"complete: the plan expects {expected} prompts and at most {most}")  # fmt: skip
    return f"{len(own) + 1} checks of the rows give what the verdict says"


def check_rules(bundle: Bundle) -> str:
    """Each rule's number from the rows; its outcome from number, interval, threshold and n."""
    rules, verdict = bundle.plan["rules"], bundle.json("verdict.json")["rules"]
    entries = [entry for entry in verdict if entry["role"] != "integrity"]
    metrics = metrics_of(bundle.plan, bundle.live) if bundle.live else []
    need({entry["name"] for entry in entries} == {each["name"] for each in [*rules, *metrics]},
         "the verdict judges other rules than the plan has")  # fmt: skip
    if any(e["role"] == "integrity" and e["outcome"] == "invalid" for e in verdict):
        need({e["outcome"] for e in entries} == {"not_evaluated"}, "rules judged on invalid rows")
        return f"{len(rules)} rules were rightly not evaluated"
    awaited = bundle.live and "arms" in live_integrity(bundle)[1]
    for rule in rules:
        own = [entry for entry in entries if entry["name"] == rule["name"]]
        if awaited:
            told = some({entry["outcome"] for entry in own} - {"not_evaluated"})
            need(not told, f"{rule['name']}: '{told}', but an arm has no rows yet")
            continue
        if rule["kind"] != "losslessness" and own[0]["outcome"] == "invalid":
            continue  # it could not be computed, which makes the whole verdict INVALID
        try:
            judge(rule, bundle, own)
        except TamperedError as error:
            raise TamperedError(f"{rule['name']}: {error}") from error
    for metric in metrics:
        own = [entry for entry in entries if entry["name"] == metric["name"]]
        try:
            judge_live(metric, bundle, own)
        except TamperedError as error:
            raise TamperedError(f"{metric['name']}: {error}") from error
    count = f"{len(rules)} rules" + (f" and {len(metrics)} metrics" if metrics else "")
    return f"{len(entries)} entries of {count} follow from rows, audit and plan"


def check_status(bundle: Bundle) -> str:
    """The status by precedence, and the reasons that go with it."""
    verdict = bundle.json("verdict.json")
    counting = [entry for entry in verdict["rules"] if entry["counts"]]
    holding = ("undecided", "insufficient", "not_evaluated")
    invalid = [entry for entry in verdict["rules"] if entry["outcome"] == "invalid"]
    failed = [entry for entry in counting if entry["outcome"] == "fail"]
    held = [entry for entry in counting if entry["outcome"] in holding]
    shown = [entry for entry in counting if entry["role"] == "primary"]
    if bundle.live and not shown:  # a stage may ask for nothing but that no alarm comes
        shown = [entry for entry in counting if entry["role"] == "guardrail"]
    found = {"INVALID": invalid, "NO_GO": failed, "INCONCLUSIVE": held, "GO": shown}
    status = next((name for name, because in found.items() if because), "INCONCLUSIVE")
    need(verdict["status"] == status, f"{verdict['status']}, where the outcomes give {status}")
    reasons = [f"{e['name']} ({e['arm']}): {e['reason']}" if e["arm"] else
               f"{e['name']}: {e['reason']}" for e in found[status]]  # fmt: skip
    need(verdict["reasons"] == reasons, "the reasons are not those of the deciding rules")
    return f"{status} by precedence {', '.join(found)}"


CHECKS: dict[str, Callable[[Bundle], str]] = {
    "archive": check_archive,
    "files": check_files,
    "plan": check_plan,
    "inputs": check_inputs,
    "rows": check_rows,
    "audit": check_audit,
    "signature": check_signature,
    "seal": check_seal,
    "ledger": check_ledger,
    "approvals": check_approvals,
    "anchors": check_anchors,
    "counts": check_counts,
    "integrity": check_integrity,
    "rules": check_rules,
    "status": check_status,
}


def verify(path: Path, signers: Sequence[str] = (), head: str | None = None,
           unsealed: bool = False) -> dict[str, Any]:  # fmt: skip
    """All checks on a bundle.

    Args:
        path: the archive or its folder.
        signers: public keys that are trusted, base64; empty believes those in the bundle.
        head: hash of a ledger entry known from elsewhere.
        unsealed: accept a bundle without seal and ledger.

    Returns:
        A JSON document with `status`, `exit_code`, and each check's `result`: ok, waived, failed
        (not in order, or it could not be run) or tampered.
    """
    bundle, checks = Bundle(path, signers, head), []
    waived = ("seal", "ledger", "approvals") if unsealed and "seal.json" not in bundle.files else ()
    for name, check in CHECKS.items():
        try:
            result, text = ("waived", "as asked") if name in waived else ("ok", check(bundle))
        except TamperedError as error:
            result, text = "tampered", str(error)
        except UncheckedError as error:
            result, text = "failed", str(error)
        except Exception as error:  # noqa: BLE001 - a check that could not run is one that failed
            result, text = "failed", f"could not be checked: {type(error).__name__}: {error}"
        checks.append({"name": name, "result": result, "text": printable(text)})
    results = {check["result"] for check in checks}
    status = "TAMPERED" if "tampered" in results else "INVALID"
    if results <= {"ok", "waived"}:
        status = bundle.json("verdict.json")["status"]
    return {"schema": "specdecode.verification/1", "bundle": str(path), "status": status,
            "exit_code": EXIT[status], "checks": checks}  # fmt: skip


def text_of(result: Mapping[str, Any]) -> str:
    """The result for people: one line a check, the status last."""
    marks = {"ok": "ok", "waived": "waived", "tampered": "TAMPERED", "failed": "FAILED"}
    lines = [f"{marks[c['result']]:<8} {c['name']:<9} {c['text']}" for c in result["checks"]]
    return "\n".join([*lines, result["status"], ""])


def main() -> int:
    """The program."""
    parser = argparse.ArgumentParser(description="Re-check an evidence bundle of specdecode.")
    parser.add_argument("bundle", type=Path, help="the archive, or the folder it was unpacked to")
    parser.add_argument("--signer", action="append", default=[], help="a public key you trust")
    parser.add_argument("--head", help="SHA-256 of a ledger entry that you know from elsewhere")
    parser.add_argument("--unsealed", action="store_true", help="accept a plan that nobody sealed")
    parser.add_argument("--json", action="store_true", help="one JSON document")
    given = parser.parse_args()
    if not given.bundle.exists():
        parser.error(f"{given.bundle}: there is no such bundle")
    result = verify(given.bundle, given.signer, given.head, given.unsealed)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    sys.stdout.write(json.dumps(result, indent=2) + "\n" if given.json else text_of(result))
    return int(result["exit_code"])


if __name__ == "__main__":
    sys.exit(main())
