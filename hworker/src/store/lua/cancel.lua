-- cancel: tell a worker to end a job that it runs.
--
-- KEYS[1] progress  HASH  the worker's leases -> envelopes
-- KEYS[2] record    HASH  the worker's record
-- ARGV[1] lease
--
-- Returns 'ok', or 'missing' where the worker does not hold it.
-- Invariant: the order stands in the record until the lease is gone, so that neither a lost connection nor the death of the worker loses it.
local call = redis.call
local progress, record = KEYS[1], KEYS[2]
local lease = ARGV[1]

-- include cancel
return order_to_cancel(progress, record, lease) and 'ok' or 'missing'
