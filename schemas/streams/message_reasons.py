"""Why a message of a stream is no event, as its dead letter says it.

What is wrong with fields is said as for records of files (`schemas.events.tally`); what only
messages can have is here. The reference of release files says what mends each.
"""

from __future__ import annotations

from tracecloak.schemas.events.tally import EMPTY_TIME, LATE_START, NO_START, REJECT_REASONS

EMPTY = "empty message"
TOMBSTONE = "tombstone"
NO_OPERATION = "no operation"
OTHER_OPERATION = "operation that is no event"
NO_FRAME = "no frame of a schema registry"
UNKNOWN_SCHEMA = "schema that the registry does not have"
UNFIT_SCHEMA = "schema that cannot be used"
NOT_OF_SCHEMA = "not a record of its schema"
OTHER_KIND = "message of the other kind than schema asks for"
NOT_JSON = "not a JSON object"
NOT_AVRO = "not an Avro datum of the schema"
NEITHER = "neither a JSON object nor an Avro datum of the schema"
NO_UTF8 = "text that is not UTF-8"
NO_UNIT = "time that is a number without a unit"
FAR_TIME = "time out of range"
MESSAGE_REASONS = (
    EMPTY,
    TOMBSTONE,
    NO_OPERATION,
    OTHER_OPERATION,
    NO_FRAME,
    UNKNOWN_SCHEMA,
    UNFIT_SCHEMA,
    NOT_OF_SCHEMA,
    OTHER_KIND,
    NOT_JSON,
    NOT_AVRO,
    NEITHER,
    NO_UTF8,
    NO_UNIT,
    FAR_TIME,
    EMPTY_TIME,
    # A stream does not read when events began.
    *(reason for reason in REJECT_REASONS if reason not in (NO_START, LATE_START)),
)
