-- A store as version 1 of the schema made it: one sequence, one run, an evaluation and a failure with raw replies.
CREATE TABLE schema_migrations (version INTEGER NOT NULL, name TEXT NOT NULL, applied_at VARCHAR(32) NOT NULL, PRIMARY KEY (version));
CREATE TABLE sequences (
	id INTEGER NOT NULL, sequence_id TEXT NOT NULL, label VARCHAR(16) NOT NULL, source TEXT NOT NULL, turns INTEGER NOT NULL,
	content_sha256 VARCHAR(64) NOT NULL, conversation JSON NOT NULL, metadata JSON NOT NULL, imported_at VARCHAR(32) NOT NULL,
	PRIMARY KEY (id), UNIQUE (sequence_id)
);
CREATE INDEX sequences_by_label ON sequences (label);
CREATE TABLE runs (
	id INTEGER NOT NULL, name TEXT NOT NULL, observer TEXT NOT NULL, observer_version TEXT NOT NULL, context VARCHAR(32) NOT NULL,
	parameters JSON NOT NULL, operating_points JSON NOT NULL, code_version TEXT NOT NULL, created_at VARCHAR(32) NOT NULL,
	PRIMARY KEY (id), UNIQUE (name)
);
CREATE TABLE replies (id INTEGER NOT NULL, text TEXT NOT NULL, received_at VARCHAR(32) NOT NULL, PRIMARY KEY (id));
CREATE TABLE turns (
	sequence INTEGER NOT NULL, turn INTEGER NOT NULL, prompt TEXT NOT NULL, response TEXT, prompt_chars INTEGER NOT NULL,
	response_chars INTEGER NOT NULL, timestamp VARCHAR(32), response_timestamp VARCHAR(32), metadata JSON NOT NULL,
	PRIMARY KEY (sequence, turn), FOREIGN KEY(sequence) REFERENCES sequences (id)
);
CREATE TABLE provenances (
	id INTEGER NOT NULL, run INTEGER NOT NULL, principle TEXT NOT NULL, principle_version TEXT NOT NULL, code_version TEXT NOT NULL,
	PRIMARY KEY (id), UNIQUE (run, principle, principle_version, code_version), FOREIGN KEY(run) REFERENCES runs (id)
);
CREATE TABLE evaluations (
	id INTEGER NOT NULL, run INTEGER NOT NULL, sequence INTEGER NOT NULL, principle TEXT NOT NULL, turn INTEGER NOT NULL,
	side VARCHAR(8) NOT NULL, provenance INTEGER NOT NULL, reply INTEGER, latency_s FLOAT, cost_usd FLOAT,
	created_at VARCHAR(32) NOT NULL, "T" FLOAT NOT NULL, "I" FLOAT NOT NULL, "F" FLOAT NOT NULL, reasoning TEXT,
	PRIMARY KEY (id),
	UNIQUE (run, sequence, principle, turn, side),
	CONSTRAINT in_range CHECK ("T" BETWEEN 0 AND 1 AND "I" BETWEEN 0 AND 1 AND "F" BETWEEN 0 AND 1),
	CONSTRAINT known_side CHECK (side IN ('prompt', 'response')),
	FOREIGN KEY(run) REFERENCES runs (id),
	FOREIGN KEY(sequence) REFERENCES sequences (id),
	FOREIGN KEY(provenance) REFERENCES provenances (id),
	FOREIGN KEY(reply) REFERENCES replies (id)
);
CREATE TABLE failures (
	id INTEGER NOT NULL, run INTEGER NOT NULL, sequence INTEGER NOT NULL, principle TEXT NOT NULL, turn INTEGER NOT NULL,
	side VARCHAR(8) NOT NULL, provenance INTEGER NOT NULL, reply INTEGER, latency_s FLOAT, cost_usd FLOAT,
	created_at VARCHAR(32) NOT NULL, reason TEXT NOT NULL, message TEXT NOT NULL,
	PRIMARY KEY (id),
	FOREIGN KEY(run) REFERENCES runs (id),
	FOREIGN KEY(sequence) REFERENCES sequences (id),
	FOREIGN KEY(provenance) REFERENCES provenances (id),
	FOREIGN KEY(reply) REFERENCES replies (id)
);
CREATE INDEX failures_by_run ON failures (run, sequence);

INSERT INTO schema_migrations VALUES (1, 'the record', '2025-01-02T03:04:05.000000+00:00');
INSERT INTO sequences VALUES (1, 'old', 'attack', 'made up', 2, 'a0', '{"conversation_id": "old", "participants": []}', '{}', '2025-01-02T03:04:05.000000+00:00');
INSERT INTO turns VALUES (1, 1, 'one', 'first', 3, 5, NULL, NULL, '{}'), (1, 2, 'two', NULL, 3, 0, NULL, NULL, '{}');
INSERT INTO runs VALUES (1, 'first', 'probe:fast', '3', 'history', '{"depth": 2}', '{}', '0.1.0', '2025-01-02T03:04:05.000000+00:00');
INSERT INTO provenances VALUES (1, 1, 'p', '1', '0.1.0');
INSERT INTO replies VALUES (1, 'T=0.5', '2025-01-02T03:04:06.000000+00:00'), (2, 'no', '2025-01-02T03:04:07.000000+00:00');
INSERT INTO evaluations VALUES (1, 1, 1, 'p', 1, 'prompt', 1, 1, 0.25, 0.5, '2025-01-02T03:04:06.000000+00:00', 0.5, 0.25, 0.125, 'because');
INSERT INTO failures VALUES (1, 1, 1, 'p', 2, 'prompt', 1, 2, 0.25, NULL, '2025-01-02T03:04:07.000000+00:00', 'refused', 'it would not');
