-- Who may use the brokers, and what administrators did.

CREATE TABLE queen.api_tokens (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    -- Tokens are for programs and live until they are revoked. Sessions are for browsers and live for hours.
    kind text NOT NULL DEFAULT 'token',
    name text NOT NULL,
    -- SHA-256. The token itself is shown once and stored nowhere.
    token_hash bytea NOT NULL,
    -- The first characters, by which people tell tokens apart.
    shown text NOT NULL,
    -- Stored as producer_sub of every message pushed with it.
    subject text,
    role text NOT NULL,
    -- Name patterns and verbs; NULL limits nothing.
    queues text[],
    verbs text[],
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    created_by text,
    expires_at timestamptz,
    last_used_at timestamptz,
    revoked_at timestamptz,
    -- The token that a session was obtained with: it ends with it.
    parent_id uuid REFERENCES queen.api_tokens (id) ON DELETE CASCADE,
    CONSTRAINT api_tokens_kind_check CHECK (kind IN ('token', 'session')),
    CONSTRAINT api_tokens_role_check CHECK (role IN ('read-only', 'read-write', 'admin')),
    CONSTRAINT api_tokens_hash_check CHECK (octet_length(token_hash) = 32),
    CONSTRAINT api_tokens_queues_check CHECK (queues IS NULL OR cardinality(queues) BETWEEN 1 AND 64),
    CONSTRAINT api_tokens_verbs_check CHECK (verbs IS NULL OR verbs <@ ARRAY['push', 'pop', 'admin'])
);

-- Serves the look-up of a token that a request carries.
CREATE UNIQUE INDEX api_tokens_token_hash_idx ON queen.api_tokens (token_hash);
-- Serves the removal of sessions with their token.
CREATE INDEX api_tokens_parent_id_idx ON queen.api_tokens (parent_id) WHERE parent_id IS NOT NULL;

CREATE TABLE queen.audit_log (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- NULL where authentication is off.
    who text,
    -- How the caller was recognised, and with which role.
    how text NOT NULL,
    role text,
    action text NOT NULL,
    -- The path and query of the request.
    target text NOT NULL,
    -- The request's body, cut.
    details text,
    address text NOT NULL,
    -- The HTTP status that was answered.
    status integer NOT NULL
);

-- Serves the list of actions by time, and the sweep of old ones.
CREATE INDEX audit_log_at_idx ON queen.audit_log (at);
