-- Who may write what into a ledger on PostgreSQL. Run by the owner of the table, after
-- `tracecloak ledger new` made it and after both roles were created:
--
--   psql DATABASE -v pipeline=NAME -v officer=NAME -f ledger_roles.sql
--
-- The pipeline can reserve, draw, commit and void, and read all. It can neither change nor remove an
-- entry, nor write one that is the privacy officer's: caps, data sets, what was given up, taken back
-- or accepted. The officer can append those, too. Nobody but the owner can do more, so no job and no
-- officer should log in as the owner.

REVOKE ALL ON tracecloak_ledger FROM PUBLIC, :"pipeline", :"officer";
GRANT SELECT, INSERT ON tracecloak_ledger TO :"pipeline", :"officer";

ALTER TABLE tracecloak_ledger ENABLE ROW LEVEL SECURITY;

CREATE POLICY all_read ON tracecloak_ledger FOR SELECT
  TO :"pipeline", :"officer" USING (true);
CREATE POLICY pipeline_pays ON tracecloak_ledger FOR INSERT
  TO :"pipeline" WITH CHECK (action IN ('reserve', 'draw', 'commit', 'void'));
CREATE POLICY officer_declares ON tracecloak_ledger FOR INSERT
  TO :"officer" WITH CHECK (true);
