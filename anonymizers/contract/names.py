"""Which names of activities are public: a parameter that methods have in common."""

from __future__ import annotations

import pydantic

from tracecloak.anonymizers.contract.method import Params
from tracecloak.schemas.events.vocabulary import OTHER, ActivityVocabulary


class NamesParams(Params):
    """Parameters of methods to which a public list of activities can be given."""

    vocabulary: tuple[str, ...] | None = None
    """Public file of activity names, one a line; any other activity counts as __other__. Without
    it the names are the input's own, and no finite epsilon holds."""
    closed_vocabulary: bool = False
    """Declare that the vocabulary has all activities: no number is spent on __other__ then, and a
    record with another activity is a reject."""

    @pydantic.model_validator(mode="after")
    def _check_closed(self) -> NamesParams:
        if self.closed_vocabulary and self.vocabulary is None:
            raise ValueError("closed_vocabulary is about the names of vocabulary: give that too")
        return self

    @property
    def n_words(self) -> int | None:
        """Number of names of `words`, which need not be made for it; None without any."""
        if self.vocabulary is None:
            return None
        return len({*self.vocabulary, *(() if self.closed_vocabulary else (OTHER,))})

    @property
    def words(self) -> ActivityVocabulary | None:
        """The public names, with OTHER unless they are closed; None without any."""
        if self.vocabulary is None:
            return None
        return ActivityVocabulary.public(self.vocabulary, self.closed_vocabulary)
