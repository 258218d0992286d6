"""The first use of a term on a page leads to its explanation, and nothing else of it is changed."""

from __future__ import annotations

import re

import pytest

from docs.hooks import site, terms
from tests.docs.test_links import anchors
from tests.support.documents import DOCUMENTS, ROOT

LINKED = '<a class="term" href="terms.html#{0}">{1}</a>'


@pytest.mark.parametrize(
    ("html", "linked"),
    [
        (
            "<p>Noise is drawn. Noise again.</p>",
            f"<p>{LINKED.format('noise', 'Noise')} is drawn. Noise again.</p>",
        ),
        (
            "<p><code>epsilon</code> of variants</p>",
            f"<p><code>epsilon</code> of {LINKED.format('variant', 'variants')}</p>",
        ),
        (
            '<p>a clip, <a href="terms.html#clip">that</a></p>',
            f'<p>a {LINKED.format("clip", "clip")}, <a href="terms.html#clip">that</a></p>',
        ),
        *(
            (text, text)
            for text in (
                "<h2>Epsilon</h2><p>variant-histogram</p>",
                '<p><a href="terms.html#clip">that</a>, a clip</p>',
                "<pre>a<br/>ledger</pre><p>community</p>",
            )
        ),
    ],
)
def test_the_first_use_is_linked(html: str, linked: str) -> None:
    assert terms.with_links(html, "terms.html") == linked


def test_every_linked_term_is_explained() -> None:
    explained = anchors((ROOT / "docs" / terms.PAGE).read_text())
    assert terms.WORDS.keys() <= explained


def test_every_term_is_used_by_a_page() -> None:
    """Catches a word that is misspelt in the table, or that no page has any more."""
    pages = [(ROOT / page).read_text() for page in DOCUMENTS]
    pages += [text for _, text in site.generated()]
    for words in terms.WORDS.values():
        assert any(re.search(words, page, re.IGNORECASE) for page in pages), words
