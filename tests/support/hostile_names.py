"""Names of activities as somebody may write them who wants to do harm, or none at all."""

# What ends an element, begins a script, steers a terminal, turns a line round, or is very long.
HOSTILE = (
    "</text><script>alert(1)</script>", "<svg onload=alert(1)>", "]]>&amp;&#0;&lt;",
    '"quotes" \\ and \\N \\" \\', "nul\0bell\x07esc\x1bdel\x7fnel\x85", "line\nbreak\r\n\ttab",
    "\u202egnp.exe\u202c", "\u2066isolate without end", "שלום עולם", "مرحبا 123",
    "👩‍👩‍👧‍👦 family 🏥", "\ufffe\uffff", "e\u0301" * 40, "検査結果の確認と承認の手続き" * 3,
    "x" * 10_000, "word " * 2_000, "", " ", "▶", "■", "--> {}; // /* #",
)  # fmt: skip
