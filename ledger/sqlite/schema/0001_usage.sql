-- One row for each authenticated request. No text of prompt or answer belongs here.
CREATE TABLE usage (
    seq               INTEGER PRIMARY KEY, -- order of admission
    id                TEXT    NOT NULL UNIQUE,
    created           INTEGER NOT NULL,    -- ms since 1970, UTC
    model             TEXT    NOT NULL,
    engine            TEXT    NOT NULL,
    key               TEXT    NOT NULL,    -- the name of the API key
    class             TEXT    NOT NULL,
    client_request_id TEXT    NOT NULL,
    route             TEXT    NOT NULL,
    stream            INTEGER NOT NULL,
    outcome           TEXT    NOT NULL,
    status            INTEGER NOT NULL,
    reason            TEXT    NOT NULL,
    finish_reason     TEXT    NOT NULL,
    queue_wait_ms     INTEGER NOT NULL,
    prefill_ms        INTEGER NOT NULL,
    thinking_ms       INTEGER NOT NULL,
    answer_ms         INTEGER NOT NULL,
    slot_ms           INTEGER NOT NULL,
    answer_started    INTEGER NOT NULL,
    runs              INTEGER NOT NULL,
    budget            TEXT    NOT NULL,
    -- Token figures: NULL is unknown.
    prompt            INTEGER,
    prompt_source     TEXT    NOT NULL,
    cached            INTEGER,
    cached_source     TEXT    NOT NULL,
    thinking          INTEGER,
    thinking_source   TEXT    NOT NULL,
    answer            INTEGER,
    answer_source     TEXT    NOT NULL,
    completion        INTEGER,
    completion_source TEXT    NOT NULL,
    drafts            INTEGER,
    drafts_source     TEXT    NOT NULL,
    engine_prompt            INTEGER,
    engine_prompt_source     TEXT NOT NULL,
    engine_completion        INTEGER,
    engine_completion_source TEXT NOT NULL
);

CREATE INDEX usage_created ON usage (created);
CREATE INDEX usage_key_created ON usage (key, created);
CREATE INDEX usage_open ON usage (outcome) WHERE outcome IN ('queued', 'running');
