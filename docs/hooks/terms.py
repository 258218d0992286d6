"""The first use of a term on each page is a link to its place among the terms.

So whoever comes to a page from elsewhere can look a word up where it stands, and pages need no
links of their own for that. A link that a page has itself counts as one of these.
"""

from __future__ import annotations

import re

PAGE = "reference/glossary.md"
# How each term is written, by its anchor: those whose sense a reader cannot guess.
WORDS = {
    "bootstrap": "bootstrap",
    "book-of-counted-units": "books? of counted units",
    "clip": "clip",
    "delta": "delta",
    "digest": "digests?",
    "directly-follows": "directly-follows (?:graphs?|pairs?)",
    "earth-movers-distance": "earth mover.s distance",
    "epoch": "epochs?",
    "epsilon": "epsilons?",
    "guarantee": "rigorous|syntactic",
    "horizon": "horizon",
    "individual": "individuals?",
    "k-anonymity": "k-anonym(?:ity|ous)",
    "key-store": "key stores?",
    "ledger": "ledgers?",
    "manifest": "manifests?",
    "markov-chain": "Markov chains?",
    "noise": "(?:Laplace|Gaussian) noise|noise",
    "norm": "L[12] norms?",
    "process-tree": "process trees?",
    "quantile": "quantiles?|medians?",
    "receipt": "receipts?",
    "reject": "rejects?",
    "runner": "runners?",
    "total-variation": "total variation",
    "unit": "units?",
    "variant": "variants?",
    "vocabulary": "vocabular(?:y|ies)",
}
# Where a word is no prose: in links, code, headings, buttons, and what is drawn.
_NO_PROSE = frozenset("a code pre h1 h2 h3 h4 h5 h6 label th script style svg".split())
_PARTS = re.compile(r"(<[^>]*>)")
_ANY = re.compile(
    r"(?<![\w-])(?:"
    + "|".join(f"(?P<{name.replace('-', '_')}>{words})" for name, words in WORDS.items())
    + r")(?![\w-])",
    re.IGNORECASE,
)


def with_links(html: str, terms: str) -> str:
    """Returns the HTML of a page in which the first use of each term is a link.

    Args:
        html: Of the page's content.
        terms: The address of the page of terms, as this page names it.
    """
    linked: set[str] = set()
    inside = 0

    def link(match: re.Match[str]) -> str:
        name = str(match.lastgroup).replace("_", "-")
        if name in linked:
            return match[0]
        linked.add(name)
        return f'<a class="term" href="{terms}#{name}">{match[0]}</a>'

    parts = []
    for part in _PARTS.split(html):
        if part.startswith("<"):
            tag = re.split(r"[\s>/]", part.lstrip("</"), maxsplit=1)[0]
            if f'href="{terms}#' in part:
                linked.add(part.partition(f"{terms}#")[2].partition('"')[0])
            if tag in _NO_PROSE and not part.endswith("/>"):
                inside += -1 if part.startswith("</") else 1
        elif not inside:
            part = _ANY.sub(link, part)
        parts.append(part)
    return "".join(parts)
