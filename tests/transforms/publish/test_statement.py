"""The privacy statement: what it says, what it never says, and that its numbers are right.

The pages are read by a parser of Markdown, markdown-it, which did not make them.
"""

from __future__ import annotations

import json
import math
import re
import textwrap
import unicodedata
from dataclasses import fields, replace
from fractions import Fraction
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from tests.support.examples import examples_of
from tracecloak.anonymizers.registry import METHODS
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.published.manifest import (
    MANIFEST_NAME,
    Guarantee,
    Operation,
    ReleaseManifest,
)
from tracecloak.transforms.publish.release_folder import STATEMENT_NAME
from tracecloak.transforms.publish.report import report_html
from tracecloak.transforms.publish.statement import InternalFacts, internal_statement
from tracecloak.transforms.publish.statement import publishable_statement as statement_with

# What delta is not: noise that is Gaussian passes e^epsilon far more often.
AS_FAILURE = re.compile(
    r"except|epsilon (?:may|does) not hold|bound (?:may|can) fail", re.IGNORECASE
)

PAGE_LINES, PAGE_COLUMNS = 100, 100

RIGOROUS = Guarantee(
    "rigorous", "case", "add_remove", 1.0, 1e-6, "(1, 0.000001)-differential privacy.",
    "Noise of scale 4 covers what one case changes.",
    ("A person with several cases is protected case by case.",),
)  # fmt: skip
PUBLISHED = Guarantee(
    "published", "case", "add_remove", None, None, "An advantage of 0.3.",
    "The set of variants is the input's own.", ("The activity names are the input's own.",),
)  # fmt: skip
SYNTACTIC = Guarantee(
    "syntactic", "individual", "add_remove", None, None, "Each variant has 5 cases.", "Counted."
)
SPENDS = (
    {"what": "clip", "mechanism": "pure", "epsilon": "0.05", "delta": "0"},
    {"what": "edges", "mechanism": "discrete_gaussian", "epsilon": "0.95", "delta": "0.000001"},
)
MANIFEST = ReleaseManifest(
    release_id="2026-01.a",
    method="private-dfg",
    method_version=1,
    params={"epsilon": "1", "vocabulary": ["register", "treat"], "l2_clip": None, "share": 1e-06},
    guarantee=RIGOROUS,
    operations=(
        Operation("condensation", "event", "concept:name"),
        Operation("suppression", "case", "case"),
    ),
    spends=SPENDS,
    config_digest="c0f1" * 8,
    key_fingerprint="f19e" * 4,
    exact_noise=True,
    unsafe_barrier=False,
    beam_version="2.77.0",
)
OF_PAPER = replace(MANIFEST, method="amun", guarantee=PUBLISHED, spends=(), exact_noise=False)
CHECKED = replace(MANIFEST, method="tlkc", guarantee=SYNTACTIC, spends=(), exact_noise=False)
FACTS = InternalFacts(
    account="claims/2026",
    ledger="postgresql+psycopg://pipeline@ledger.example/budget",
    spent_after="3.25",
    cap="10",
    inputs=("/lake/claims/january.csv", "/lake/claims/february.csv"),
    runner="FlinkRunner",
    config_digest="c0f1" * 8,
    key_fingerprint="f19e" * 4,
    dead_letter="/lake/_internal/run_id=2026-01.a",
    warnings=("many of the first records follow within a second",),
    configuration={"output": "/open/claims", "shards": 64},
)


def publishable_statement(manifest: ReleaseManifest, has_error_bars: bool = False) -> str:
    return statement_with(manifest, has_error_bars)


READER = MarkdownIt("commonmark").enable(["table", "strikethrough"])


def inlines(text: str) -> list[Token]:
    return [token for token in READER.parse(text) if token.type == "inline"]


def plain(token: Token) -> str:
    return "".join(" " if c.type == "softbreak" else c.content for c in token.children or [])


def paragraphs(text: str) -> list[str]:
    """What a reader sees, block by block: headings, paragraphs, items and cells."""
    return [plain(token) for token in inlines(text)]


def sections(text: str) -> dict[str, list[str]]:
    """Blocks by the heading above them."""
    heading = ""
    found: dict[str, list[str]] = {heading: []}
    tokens = READER.parse(text)
    for before, token in pairwise(tokens):
        if before.type == "heading_open":
            heading = plain(token)
            found[heading] = []
        elif token.type == "inline":
            found[heading].append(plain(token))
    return found


def table(blocks: list[str], width: int, first: str) -> list[list[str]]:
    """Rows of the table whose first cell is `first`, up to the section's last full row."""
    cells = blocks[blocks.index(first) :]
    return [cells[i : i + width] for i in range(0, len(cells) - width + 1, width)]


def with_numbers(epsilon: float, delta: float, adjacency: Any = "add_remove") -> ReleaseManifest:
    guarantee = replace(RIGOROUS, epsilon=epsilon, delta=delta, adjacency=adjacency)
    return replace(MANIFEST, guarantee=guarantee, spends=())


# --- what is there --------------------------------------------------------------------------------

PROOFS = "docs/explanation/proofs.md"


def test_values_of_parameters_are_short_and_exact():
    for value, shown in [
        (True, "x = yes"),
        (0.1, "x = 0.1"),
        (2.5e-7, "x = 0.00000025"),
        (["age", "sex"], "x = age, sex"),
        ([f"attribute {i}" for i in range(1200)], "x = a list of 1,200"),
        ({"a": 1, "b": False}, "x = a: 1, b: no"),
        ({f"key {i}": i for i in range(90)}, "x = 90 entries"),
        ("é" * 60, "x = " + "é" * 60),
        ("é" * 61, "x = " + "é" * 60 + "… (61 characters)"),
        ("two\nlines\tof  it", "x = two lines of it"),
        (["admit"], "vocabulary = 1 public activity name"),
        (["admit"] * 27, "vocabulary = 27 public activity names"),
    ]:
        params = {shown.partition(" ")[0]: value}
        text = publishable_statement(replace(MANIFEST, params=params))
        assert f"Its parameters are public: {shown}." in " ".join(paragraphs(text))
        assert "admit" not in text


def test_delta_is_said_to_come_on_top_and_not_to_be_the_chance_that_epsilon_fails():
    """Gaussian noise passes e^epsilon twenty times as often as with probability delta."""
    text = publishable_statement(MANIFEST)
    page = report_html(MANIFEST, [], [], None).decode()
    for shown in (text, page, MANIFEST.guarantee.sentence):
        assert not AS_FAILURE.search(shown)
    flat = " ".join(paragraphs(text))
    assert "kept to epsilon otherwise" in flat
    assert "twice the factor with a probability of at most 0.000002" in flat
    assert "The delta of each question comes on top" in flat
    assert "Delta comes on top" in page
    exact = publishable_statement(with_numbers(1.0, 0.0))
    assert "this holds without exception" in exact and "comes on top" not in exact


# --- the numbers, against formulas in floats ------------------------------------------------------


def numbers_in(text: str) -> list[float]:
    return [float(number.replace(",", "")) for number in re.findall(r"\d[\d,]*(?:\.\d+)?", text)]


def assert_rounded_up(shown: float, value: float, step: float) -> None:
    assert value - 1e-12 <= shown < value + step + 1e-12


def naive_posterior(prior: float, epsilon: float) -> float:
    """Bayes' rule for the answer of a mechanism that lies with probability 1 / (1 + e^epsilon)."""
    truth, lie = 1 / (1 + math.exp(-epsilon)), 1 / (1 + math.exp(epsilon))
    return prior * truth / (prior * truth + (1 - prior) * lie)


def of_question(text: str) -> list[float]:
    """Epsilon, delta and advantage in what is said of one question of an attacker."""
    found = re.search(r"epsilon (\S+), delta (?:at most )?(\S+)\.\) .* (\S+), the ", text)
    assert found
    return [float(number) for number in found.groups()]


@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
@pytest.mark.parametrize("delta", [0.0, 1e-9, 1e-6])
@pytest.mark.parametrize("epsilon", [0.001, 0.405, 1.0, 5.0, 13.81])
def test_bounds_are_those_of_the_formulas_rounded_up(epsilon, delta, adjacency):
    found = sections(publishable_statement(with_numbers(epsilon, delta, adjacency)))
    presence, content, _, *rest = found["What an attacker can learn at most"]
    growth = math.exp(epsilon)
    losses = {"presence": epsilon, "content": 2 * epsilon}
    if adjacency == "add_remove":
        own = of_question(presence)
        assert own[:2] == [epsilon, delta]
        assert_rounded_up(own[2], (growth - 1 + 2 * delta) / (growth + 1), 1e-4)
        other = of_question(content)
        assert other[0] == pytest.approx(2 * epsilon)
        assert_rounded_up(other[1], (1 + growth) * delta, 0.01 * (1 + growth) * delta)
    else:
        assert "No bound follows" in presence and "no bound" in rest
        losses = {"content": epsilon}
        other = of_question(content)
        assert other[0] == epsilon and other[1] == delta
    if adjacency == "add_remove" or delta == 1e-6:
        assert_rounded_up(other[2], math.tanh(losses["content"] / 4), 1e-4)
    head, *rows = table(rest, 4, "If a guess is right with this probability before the release,")
    assert head[1:] == ["1 %", "10 %", "50 %"]
    for row, loss in zip(rows[2 - len(losses) :], losses.values(), strict=True):
        for cell, prior in zip(row[1:], (0.01, 0.1, 0.5), strict=True):
            assert_rounded_up(*numbers_in(cell), 100 * naive_posterior(prior, loss), 0.1)


def test_nothing_is_bounded_where_the_delta_of_replacing_reaches_one():
    # (1 + e^epsilon) 1e-6 = 1 at epsilon = ln(999999) = 13.81550956.
    below, above = (
        sections(publishable_statement(with_numbers(epsilon, 1e-6)))[
            "What an attacker can learn at most"
        ]
        for epsilon in (13.8155095, 13.8155096)
    )
    assert "no bound" not in below
    assert above.count("no bound") == 3
    assert "No bound follows" in above[1]
    assert "no bound" not in " ".join(
        sections(publishable_statement(with_numbers(1000.0, 0.0)))[
            "What an attacker can learn at most"
        ]
    )


def test_an_epsilon_that_bounds_nothing_or_everything_is_refused():
    for epsilon in (0.0, 1e7):
        with pytest.raises(UsageError, match="epsilon"):
            publishable_statement(with_numbers(epsilon, 0.0))


# --- the two editions -----------------------------------------------------------------------------

CANARY = st.text("0123456789abcdef", min_size=16, max_size=24)
OF_TYPE = {
    "str": CANARY,
    "str | None": st.none() | CANARY,
    "tuple[str, ...]": st.lists(CANARY, max_size=4).map(tuple),
    "dict[str, Any]": st.dictionaries(CANARY, CANARY, max_size=3),
}
CANARIES = st.builds(InternalFacts, **{f.name: OF_TYPE[f.type] for f in fields(InternalFacts)})


@settings(deadline=None, max_examples=40)
@given(CANARIES, st.sampled_from([MANIFEST, OF_PAPER, CHECKED]))
def test_what_only_the_operator_knows_is_on_the_internal_page_only(facts, manifest):
    # The digests are those of this manifest, as they are in a real run.
    manifest = replace(
        manifest, config_digest=facts.config_digest, key_fingerprint=facts.key_fingerprint
    )
    internal = internal_statement(manifest, facts)
    publishable = publishable_statement(manifest)
    for text in re.findall("[0-9a-f]{16,}", repr(facts)):
        assert text in internal
        assert text not in publishable


def test_neither_edition_contains_or_names_the_other():
    for manifest in (MANIFEST, OF_PAPER, CHECKED):
        internal, publishable = internal_statement(manifest, FACTS), publishable_statement(manifest)
        assert internal.startswith("INTERNAL: not for publication\n")
        assert "INTERNAL" not in publishable
        assert re.search(r"internal|operator|ledger|account\b", publishable, re.I) is None
        assert set(sections(internal)) & set(sections(publishable)) == {""}  # no shared heading
        assert STATEMENT_NAME not in internal
        assert re.findall(r"[\w.]+\.(?:json|md|html)\b", publishable)[-1:] == [MANIFEST_NAME]
        assert re.findall(r"[\w/]+\.(?:json|md|html)\b", publishable)[:-1] in ([], [PROOFS])


def test_no_password_gets_through():
    for leak in ["postgresql://user:hunter2@db.example/budget", "host=db PWD=hunter2"]:
        facts = replace(
            FACTS, ledger=leak, configuration={"ledger": leak, "deep": [{"ledger": leak}]}
        )
        text = internal_statement(MANIFEST, facts)
        assert "hunter2" not in text
        assert text.count("db") == 3
        named = replace(FACTS, configuration={"api_token": "hunter2", "tokens": {"x": ["hunter2"]}})
        assert "hunter2" not in internal_statement(MANIFEST, named)


# --- hostile names --------------------------------------------------------------------------------

HOSTILE = [
    "a|b", "`code` ``two``", "<script>alert(1)</script>", "<!--", "[click](http://evil.example)",
    "www.evil.example http://evil.example", "![x](http://evil.example/x.png)",
    "[x]: http://evil.example", "**bold** __bold__ *i* _i_ ~~gone~~",
    "one\n\n# Heading\n\n- item\n| a | b |\n|---|---|", "# heading", "- item", "+ item", "1. item",
    "12) item", "---", "===", "> quote", "    code", "\tcode", "```\nfence", "~~~", "&lt;&#60;",
    "back\\slash\\", "\\|", "{{ 7 * 7 }}{% raw %}", "$math$ @someone #12", ":---:",
    "a\u2028b\u0085c\x0bd\x00e", "\u202egnp.exe", "lone \ud800 surrogate",
]  # fmt: skip


def seen(name: str) -> str:
    """What a reader shall see of a name: white space as one blank, no steering characters."""
    steering = {"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"}
    line = " ".join(name.split())
    return "".join("\ufffd" if unicodedata.category(c) in steering else c for c in line)


def hostile_manifest(name: str) -> ReleaseManifest:
    """The name wherever a manifest has room for one."""
    return replace(
        MANIFEST,
        release_id=name,
        method=name,
        params={name: name, "y": [name]},
        guarantee=replace(RIGOROUS, claim=name, reality=name, not_covered=(name, f"See {name}.")),
        operations=(Operation(name, "event", name),),
        spends=({"what": name, "mechanism": name, "epsilon": "1", "delta": "0"},),
    )


def each_hostile(test: Any) -> Any:
    for name in HOSTILE:
        test = example(name=name)(test)
    return test


def structure(text: str) -> list[Any]:
    """All blocks and all markup in them, without the words."""
    return [
        (token.type, token.tag, [c.type for c in token.children or [] if c.type != "text"])
        for token in READER.parse(text)
    ]


@pytest.mark.parametrize("kind", ["rigorous", "published", "syntactic"])
@each_hostile
@given(name=st.text(min_size=1, max_size=12).filter(lambda name: seen(name)))
def test_a_hostile_name_stays_a_name(name, kind):
    def page(of: str) -> str:
        manifest = hostile_manifest(of)
        guarantee = replace(manifest.guarantee, kind=kind, epsilon=1.0, delta=0.0)
        return publishable_statement(replace(manifest, guarantee=guarantee))

    text = page(name)
    assert structure(text) == structure(page("name"))
    blocks = paragraphs(text)
    assert blocks[0] == f"Privacy statement of release {seen(name)}"
    found = sections(text)
    assert f"The method is {seen(name)}." in " ".join(found["What was released"])
    assert found["What is not covered"][:2] == [seen(name), seen(f"See {name}.")]
    if kind == "published":
        claim, reality = found["What was published, and what holds"]
        assert claim.removeprefix("The method was published with this claim: ") == seen(name)
        assert reality.removeprefix("This is what really holds: ") == seen(name)
    if kind == "rigorous":
        parts = table(found["Parts of the budget"], 4, "Part")
        assert parts[1:] == [[seen(name), seen(name), "1", "0"]]
    assert re.search(r"(?<!\\):(?=//)|(?i:www)\.", text) is None
    text.encode()


def test_a_hostile_fact_stays_in_its_place():
    for name in HOSTILE:

        def page(of: str) -> str:
            facts = replace(
                FACTS, account=of, ledger=of, runner=of, inputs=(of, of), configuration={of: [of]}
            )
            return internal_statement(MANIFEST, facts)

        text = page(name)
        assert structure(text) == structure(page("name"))
        assert sections(text)["Inputs"] == [seen(name)] * 2
        assert table(sections(text)["Account"], 2, "Account")[:2] == [
            ["Account", seen(name)],
            ["Ledger", seen(name)],
        ]
        (block,) = [token for token in READER.parse(text) if token.type == "fence"]
        assert len(block.content.splitlines()) == 1
        assert not [c for c in block.content[:-1] if unicodedata.category(c) in ("Cc", "Cf", "Zl")]


def test_the_configuration_is_exact_json():
    configuration = {
        "delimiter": "\t",
        "columns": {"case_id": "two  blanks \u202e ``` \U0001d173"},
        "names": ["é", None, 0.1],
    }
    text = internal_statement(MANIFEST, replace(FACTS, configuration=configuration))
    (block,) = [token for token in READER.parse(text) if token.type == "fence"]
    lines = [line.split(": ", 1) for line in block.content.splitlines()]
    assert {name: json.loads(value) for name, value in lines} == configuration
    long = internal_statement(MANIFEST, replace(FACTS, configuration={"x": "y" * 1000}))
    assert "y" * 1000 not in long
    assert "… (1,005 characters)" in long  # x, a colon, a blank and two quotes


# --- one page -------------------------------------------------------------------------------------


def n_lines(text: str) -> int:
    return sum(max(1, len(textwrap.wrap(line, PAGE_COLUMNS))) for line in text.splitlines())


def test_every_method_fits_a_page():
    for name, method in METHODS.items():
        for params in (method.Params(**one) for one in examples_of(method)):
            spends = tuple(part.to_json() for part in method.spends(params))
            manifest = replace(
                MANIFEST, method=name, params=params.resolved(),
                guarantee=method.guarantee(params), operations=method.operations, spends=spends,
                exact_noise=method.exact_noise, time_caveats=method.time_caveats(params),
            )  # fmt: skip
            text = publishable_statement(manifest, method.has_error_bars)
            # A line more for each indicator that is asked for, as each is a part of the budget.
            assert n_lines(text) <= PAGE_LINES + len(getattr(params, "indicators", ()))
            assert "\\" not in text  # whoever reads the plain file would see it
            shown = [part["what"] for part in spends]
            rows = table(sections(text).get("Parts of the budget", ["Part"]), 4, "Part")[1:]
            assert [row[0] for row in rows if row[0] != "Sum of the parts"] == shown
            assert sum(Fraction(row[2]) for row in rows[: len(shown)]) == Fraction(
                str(manifest.guarantee.epsilon or 0)
            )
