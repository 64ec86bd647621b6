CREATE TABLE creates (
    key bytea NOT NULL,
    entry bigint NOT NULL,
    state text NOT NULL,
    agent_id text,
    status integer,
    request_id text,
    title text,
    code text,
    request bytea,
    email bytea,
    label text,
    job bigint,
    claimed_at bigint NOT NULL,
    noted_at bigint NOT NULL
);
CREATE TABLE jobs (
    number bigint NOT NULL,
    lease_until timestamp with time zone NOT NULL
);
CREATE TABLE ledger (
    one bigint DEFAULT 1 NOT NULL,
    salt bytea NOT NULL,
    service text NOT NULL,
    keys text,
    header_check bytea NOT NULL,
    CONSTRAINT ledger_one_check CHECK ((one = 1))
);
CREATE TABLE version (
    version bigint NOT NULL
);
INSERT INTO creates VALUES ('\x1f50cf3e7ebbfa396617834871493b2c', 0, 'sending', NULL, NULL, NULL, NULL, NULL, '\x3fd773d714caacf6558805ada8e9dcba', '\xcb47da38e78e1ededf85924fb3c07601', 'label of sending', 3126812597052293375, 1795901259413, 1795901259413);
INSERT INTO creates VALUES ('\xe6c521cf8affca181ee54973942300a4', 0, 'succeeded', 'a_1', NULL, NULL, NULL, NULL, '\x3fd773d714caacf6558805ada8e9dcba', '\xf6e02d72cb988491ad0aa4df48a6db27', 'label of succeeded', NULL, 1795901259415, 1795901259416);
INSERT INTO creates VALUES ('\x172f57400f660a38a5411a776d5cba9f', 0, 'succeeded', NULL, NULL, NULL, NULL, NULL, '\x3fd773d714caacf6558805ada8e9dcba', '\x25989308e86cf646d2763ff7df71b52f', 'label of succeeded without an identifier', NULL, 1795901259417, 1795901259418);
INSERT INTO creates VALUES ('\x14f316b914ba7b1fa0b97c9d93e89c62', 0, 'rejected', NULL, 422, 'r-422', 'Unprocessable', 'invalid_email missing', '\x3fd773d714caacf6558805ada8e9dcba', '\xb65d02f950900c70dc92b4ef58b0cb14', 'label of rejected', NULL, 1795901259419, 1795901259419);
INSERT INTO creates VALUES ('\x5ea231866ebb7b67a4878f1afed4d307', 0, 'rejected', NULL, 401, 'r-401', 'Unprocessable', 'invalid_email missing', '\x3fd773d714caacf6558805ada8e9dcba', '\x4eae0cddc55c63cd3b251d49b5908a40', 'label of rejected for its sender', NULL, 1795901259420, 1795901259421);
INSERT INTO creates VALUES ('\x5ffb7c8c7cca73dd03ea71091e15a106', 0, 'unknown', NULL, 503, 'r-503', NULL, NULL, '\x3fd773d714caacf6558805ada8e9dcba', '\x5dfcbeebaca4cd993ec6469c221914b0', 'label of unknown', NULL, 1795901259422, 1795901259423);
INSERT INTO creates VALUES ('\x0e2ea9eae3da3e7bc622088a3f1c6fa9', 0, 'unknown', NULL, 503, 'r-503', NULL, NULL, '\x3fd773d714caacf6558805ada8e9dcba', '\x5cd51a021f41da145d78ab71832eb8fb', 'label of resolved with an agent', NULL, 1795901259424, 1795901259424);
INSERT INTO creates VALUES ('\x7722b79752cc83790fb2b6d1a2eb34ed', 0, 'unknown', NULL, 503, 'r-503', NULL, NULL, '\x3fd773d714caacf6558805ada8e9dcba', '\xa2f01294cd529743405359934df09350', 'label of resolved without an agent', NULL, 1795901259425, 1795901259426);
INSERT INTO creates VALUES ('\x0e2ea9eae3da3e7bc622088a3f1c6fa9', 1, 'resolved', 'a_2', NULL, NULL, NULL, NULL, '\x3fd773d714caacf6558805ada8e9dcba', '\x5cd51a021f41da145d78ab71832eb8fb', 'label of resolved with an agent', NULL, 1795901259424, 1795901259434);
INSERT INTO creates VALUES ('\x7722b79752cc83790fb2b6d1a2eb34ed', 1, 'resolved', NULL, NULL, NULL, NULL, NULL, '\x3fd773d714caacf6558805ada8e9dcba', '\xa2f01294cd529743405359934df09350', 'label of resolved without an agent', NULL, 1795901259425, 1795901259434);
INSERT INTO ledger VALUES (1, '\x59ad3a370e847c0648fbe74e4f43a672e2ffef80e7afc88a59b51f7b1097394a', 'https://deals.example.com', 'email', '\xa8438ba3bb6eb039ebb2c69347524ba0');
INSERT INTO version VALUES (2);
ALTER TABLE ONLY creates
    ADD CONSTRAINT creates_pkey PRIMARY KEY (key, entry);
ALTER TABLE ONLY jobs
    ADD CONSTRAINT jobs_pkey PRIMARY KEY (number);
ALTER TABLE ONLY ledger
    ADD CONSTRAINT ledger_pkey PRIMARY KEY (one);
CREATE INDEX creates_of_agent ON creates USING btree (agent_id) WHERE (agent_id IS NOT NULL);
CREATE INDEX creates_of_email ON creates USING btree (email) WHERE (email IS NOT NULL);
