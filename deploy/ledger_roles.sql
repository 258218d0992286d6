-- Who may write what into a ledger on PostgreSQL. Run by the owner of the table, after
-- `tracecloak ledger begin` made it and after both roles were created:
--
--   psql DATABASE -v pipeline=NAME -v officer=NAME -f ledger_roles.sql
--
-- The pipeline can reserve, claim, draw, commit and void, note steps of streams and what follows from
-- all entries, and read all. It can neither change nor remove an entry, nor write one that is the
-- privacy officer's: caps, data sets, what was given up, taken back, restored or accepted. The officer can append those, too.
-- Nobody but the owner can do more, so no job and no officer should log in as the owner.
--
-- Where this ran for an earlier version, `tracecloak ledger migrate` lets both write what that version
-- did not.
--
-- What windows counted is beside the ledger: the pipeline adds to it, both read it, and nobody changes or removes
-- any of it. Where this ran before the ledger had it, run the lines of tracecloak_units below after
-- `tracecloak ledger migrate`.
--
-- Beside the ledger lie sketches of the cases that releases read. Both add and compare them, as who
-- gives a release up notes what it read; the pipeline erases those whose day has passed, and the
-- officer any. Nobody changes one.

REVOKE ALL ON tracecloak_ledger FROM PUBLIC, :"pipeline", :"officer";
GRANT SELECT, INSERT ON tracecloak_ledger TO :"pipeline", :"officer";

ALTER TABLE tracecloak_ledger ENABLE ROW LEVEL SECURITY;

CREATE POLICY all_read ON tracecloak_ledger FOR SELECT
  TO :"pipeline", :"officer" USING (true);
CREATE POLICY pipeline_pays ON tracecloak_ledger FOR INSERT
  TO :"pipeline" WITH CHECK (action IN ('reserve', 'claim', 'draw', 'commit', 'void', 'step', 'checkpoint'));
CREATE POLICY officer_declares ON tracecloak_ledger FOR INSERT
  TO :"officer" WITH CHECK (true);

REVOKE ALL ON tracecloak_units FROM PUBLIC, :"pipeline", :"officer";
GRANT SELECT, INSERT ON tracecloak_units TO :"pipeline";
GRANT SELECT ON tracecloak_units TO :"officer";

REVOKE ALL ON tracecloak_windows FROM PUBLIC, :"pipeline", :"officer";
GRANT SELECT, INSERT ON tracecloak_windows TO :"pipeline", :"officer";

REVOKE ALL ON tracecloak_cases FROM PUBLIC, :"pipeline", :"officer";
GRANT SELECT, INSERT, DELETE ON tracecloak_cases TO :"pipeline", :"officer";

ALTER TABLE tracecloak_cases ENABLE ROW LEVEL SECURITY;

CREATE POLICY all_read ON tracecloak_cases FOR SELECT
  TO :"pipeline", :"officer" USING (true);
CREATE POLICY all_note ON tracecloak_cases FOR INSERT
  TO :"pipeline", :"officer" WITH CHECK (true);
CREATE POLICY old_ones_go ON tracecloak_cases FOR DELETE
  TO :"pipeline" USING (kept_until < to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD'));
CREATE POLICY officer_erases ON tracecloak_cases FOR DELETE
  TO :"officer" USING (true);
